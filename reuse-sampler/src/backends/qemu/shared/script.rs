//! The first line of a script.

/// The interpreter that a file's first bytes name after `#!`, and its argument: as the kernel reads them, all words after
/// the interpreter are one argument. None for a file that is no script.
#[must_use]
pub fn interpreter(start: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let line = start.strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let argument = Some(line[end..].trim_ascii()).filter(|argument| !argument.is_empty());
    Some((&line[..end], argument))
}

#[cfg(test)]
mod tests {
    use super::interpreter;

    #[test]
    fn the_first_line_is_read_as_the_kernel_reads_it() {
        for (start, expected) in [
            ("#!/bin/sh\nexit", Some(("/bin/sh", None))),
            ("#! /usr/bin/perl -w\n", Some(("/usr/bin/perl", Some("-w")))),
            ("#!/usr/bin/env -S node x \n", Some(("/usr/bin/env", Some("-S node x")))),
            ("#!\n", Some(("", None))),
            ("\x7fELF", None),
        ] {
            let found = interpreter(start.as_bytes());
            let expected =
                expected.map(|(word, rest): (&str, Option<&str>)| (word.as_bytes(), rest.map(str::as_bytes)));
            assert_eq!(found, expected, "{start:?}");
        }
    }
}
