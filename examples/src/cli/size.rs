//! Sizes as people write them: `4096`, `64K`, `64KiB`, `1MiB`, `2G`.

use reuse_sampler::{CacheLines, LineSize};

use super::Failure;

/// Reads a size in bytes, greater than zero.
///
/// # Errors
/// A sentence that names the text.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unparsable =
        || format!("{text:?} is not a size: write bytes as 4096, 64K, 64KiB, 1MiB or 2G (powers of 1024)");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match text[digits..].trim_start() {
        "" | "B" => 0,
        "K" | "k" | "KiB" | "KB" | "kB" => 10,
        "M" | "MiB" | "MB" => 20,
        "G" | "GiB" | "GB" => 30,
        _ => return Err(unparsable()),
    };
    if digits == 0 {
        return Err(unparsable());
    }
    let too_large = || format!("{text:?} is too large: the limit is 2^63 bytes");
    let number: u64 = text[..digits].parse().map_err(|_| too_large())?;
    match number.checked_mul(1 << shift).filter(|&bytes| bytes <= 1 << 63) {
        Some(0) => Err(format!("{text:?}: a cache of no bytes misses every access; give at least one line")),
        Some(bytes) => Ok(bytes),
        None => Err(too_large()),
    }
}

/// Cache sizes in lines, ascending and without repetition, from sizes in bytes.
///
/// # Errors
/// [`Failure::Usage`] for a size that is not a whole number of lines.
pub fn cache_sizes(bytes: &[u64], line_size: LineSize) -> Result<Vec<CacheLines>, Failure> {
    let line = line_size.bytes();
    let mut sizes = Vec::with_capacity(bytes.len());
    for &bytes in bytes {
        if bytes % u64::from(line) != 0 {
            return Err(Failure::Usage(format!(
                "{bytes} bytes is not a whole number of {line}-byte lines; give a multiple of {line}"
            )));
        }
        sizes.push(CacheLines::from_bytes(bytes, line_size));
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64K", 65_536),
            ("64KiB", 65_536),
            ("1MiB", 1 << 20),
            (" 2 G", 2 << 30),
            ("1B", 1),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn bad_sizes_are_named() {
        for text in ["", "K", "4X", "-4K", "1.5M", "4Ki"] {
            assert!(parse_bytes(text).unwrap_err().starts_with(&format!("{text:?} is not a size")));
        }
        assert!(parse_bytes("0K").unwrap_err().starts_with("\"0K\": a cache of no bytes"));
        for text in ["99999999999999999999", "18446744073709551615K"] {
            assert!(parse_bytes(text).unwrap_err().starts_with(&format!("{text:?} is too large")));
        }
        let refused = cache_sizes(&[128, 100], LineSize::B64).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "100 bytes is not a whole number of 64-byte lines; give a multiple of 64"
        );
        assert_eq!(refused.status(), crate::cli::USAGE);
        assert_eq!(cache_sizes(&[128, 64, 128], LineSize::B64).unwrap(), [CacheLines(1), CacheLines(2)]);
    }
}
