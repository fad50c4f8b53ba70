//! How a block or an access is packed into a number, where everything is handed out. Addresses have 48 bits, as programs
//! use them.
//!
//! An access holds how far into its block its instruction lies, so that its program counter costs nothing;
//! one too far for that is announced by a word of its own.

const ADDRESS: u64 = (1 << 48) - 1;
const BLOCK: u64 = 1 << 63;
const STORE: u64 = 1 << 51;
const WITHIN: u32 = 52;

/// Where an access is made: in the bits of its word that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// As the last [`site`] says.
    pub const OF_SITE: Self = Self(((1 << 11) - 1) << WITHIN);

    /// So many bytes into the block; `None` if that is too far.
    #[must_use]
    pub const fn within(bytes: u64) -> Option<Self> {
        if bytes < Self::OF_SITE.0 >> WITHIN { Some(Self(bytes << WITHIN)) } else { None }
    }

    /// As a number that [`from_bits`](Self::from_bits) takes.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// What [`bits`](Self::bits) holds.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// A block of `instructions` instructions, at least one, at `address`.
#[must_use]
pub const fn block(address: u64, instructions: u64) -> u64 {
    let most = (1 << 15) - 1;
    let instructions = match instructions {
        0 => 1,
        some if some < most => some,
        _ => most,
    };
    BLOCK | instructions << 48 | address & ADDRESS
}

/// The address of the instruction that makes the next access.
#[must_use]
pub const fn site(pc: u64) -> u64 {
    BLOCK | pc & ADDRESS
}

/// Bytes of an access by the number that stands for them.
const SIZES: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 10];
const SIZE: u32 = 48;

/// Makes the access `word` one of `bytes` bytes. False if no access has so many.
pub fn lengthen(word: &mut u64, bytes: u64) -> bool {
    let size = SIZES.iter().position(|&size| u64::from(size) == bytes);
    if let Some(size) = size {
        *word = *word & !(7 << SIZE) | (size as u64) << SIZE;
    }
    // Between 16 and 32 bytes there is nothing to write down, until the rest comes.
    size.is_some() || bytes == 24
}

/// An access to 2 to the power of `shift` bytes at `address`; at most 64 bytes.
#[inline]
#[must_use]
pub const fn access(address: u64, shift: u32, store: bool, place: Place) -> u64 {
    let shift = if shift < 6 { shift as u64 } else { 6 };
    place.0 | (store as u64 * STORE) | shift << 48 | address & ADDRESS
}

/// What a number was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A block with its instructions.
    Block(u64, u32),
    /// An instruction.
    Site(u64),
    /// An access: address, bytes, whether it is a store, and how far into its block it is made, if not where the last
    /// site is.
    Access(u64, u32, bool, Option<u64>),
}

/// Takes a number apart.
#[inline]
#[must_use]
pub const fn read(word: u64) -> Word {
    let address = word & ADDRESS;
    if word & BLOCK == 0 {
        let place = word & Place::OF_SITE.0;
        let within = if place == Place::OF_SITE.0 { None } else { Some(place >> WITHIN) };
        Word::Access(address, SIZES[(word >> SIZE & 7) as usize], word & STORE != 0, within)
    } else {
        match (word >> 48 & 0x7FFF) as u32 {
            0 => Word::Site(address),
            instructions => Word::Block(address, instructions),
        }
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        fn words_keep_what_they_are_made_from(address: u64, count: u16, store: bool, far: u16) -> bool {
            let kept = address & ((1 << 48) - 1);
            let shift = u32::from(count % 7);
            let within = Some(u64::from(far)).filter(|&bytes| bytes < 2047);
            let place = Place::within(far.into());
            let word = access(address, shift, store, Place::from_bits(place.unwrap_or(Place::OF_SITE).bits()));
            place.is_some() == within.is_some()
                && read(block(address, count.into()))
                    == Word::Block(kept, u32::from(count).clamp(1, (1 << 15) - 1))
                && read(site(address)) == Word::Site(kept)
                && read(word) == Word::Access(kept, 1 << shift, store, within)
        }

        fn accesses_grow_to_the_lengths_that_operands_have(address: u64, store: bool) -> bool {
            let kept = address & ((1 << 48) - 1);
            let mut word = access(address, 3, store, Place::OF_SITE);
            [10, 16, 24, 32, 64].iter().all(|&bytes| {
                let expected = if bytes == 24 { 16 } else { bytes as u32 };
                lengthen(&mut word, bytes) && read(word) == Word::Access(kept, expected, store, None)
            }) && !lengthen(&mut word, 12)
        }
    }
}
