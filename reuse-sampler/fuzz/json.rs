//! Changes a JSON text in one place, as someone would who wants its reader to fail.

use libfuzzer_sys::{fuzz_mutator, fuzzer_mutate};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

/// What takes the place of a value: numbers at and beyond the edges of their types, and values of other types.
const HOSTILE: [&str; 28] = [
    "0",
    "1",
    "2",
    "3",
    "64",
    "1000000",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "-0.0",
    "0.5",
    "1e-320",
    "1e-9",
    "1e9",
    "1e18",
    "1e300",
    "1e999",
    "null",
    "true",
    "\"\"",
    "\"A\"",
    "\"9\"",
    "[]",
    "{}",
    "[[0,0,0]]",
];

/// The spans of the values of a text, as far as it can be followed: numbers, texts, lists and objects.
fn values(text: &[u8]) -> Vec<(usize, usize)> {
    let (mut spans, mut open, mut at) = (Vec::new(), Vec::new(), 0);
    while at < text.len() {
        let start = at;
        at += 1;
        match text[start] {
            b'[' | b'{' => open.push(start),
            b']' | b'}' => spans.extend(open.pop().map(|from| (from, at))),
            b'"' => {
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(text.len());
                spans.push((start, at));
            }
            b',' | b':' | b' ' | b'\n' => {}
            _ => {
                while at < text.len() && !b",:]} \n".contains(&text[at]) {
                    at += 1;
                }
                spans.push((start, at));
            }
        }
    }
    spans
}

/// Changes the `size` bytes at the start of `data`, and returns how many there are then.
fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut state = u64::from(seed) | 1 << 32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let spans = values(&data[..size]);
    if spans.is_empty() || random(4) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let text = data[..size].to_vec();
    let (start, end) = spans[random(spans.len())];
    // Another value of the same text: as long as this one, two in its place, or nothing.
    let other = spans[random(spans.len())];
    let value = match random(6) {
        0..3 => HOSTILE[random(HOSTILE.len())].as_bytes().to_vec(),
        3 => text[other.0..other.1].to_vec(),
        4 => [&text[start..end], b",", &text[start..end]].concat(),
        _ => Vec::new(),
    };
    // What follows a value that is left out goes with it: `,` or `:` and the space after.
    let mut rest = end;
    while value.is_empty() && rest < size && b",: ".contains(&text[rest]) {
        rest += 1;
    }
    let changed = [&text[..start], &value, &text[rest..]].concat();
    let length = changed.len().min(max_size);
    data[..length].copy_from_slice(&changed[..length]);
    length
}
