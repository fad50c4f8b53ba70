//! Numbers as people read them.

/// `64 B`, `32 KiB`, `1.5 MiB`.
pub fn bytes(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift {
            return format!("{} {unit}", three_digits(bytes as f64 / (1_u64 << shift) as f64));
        }
    }
    format!("{bytes} B")
}

/// `950`, `1.25 M`, `3.4 G`.
pub fn count(count: u64) -> String {
    for (unit, size) in [("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        if count as f64 >= size {
            return format!("{} {unit}", three_digits(count as f64 / size));
        }
    }
    count.to_string()
}

/// A ratio as a percentage with two or three digits that matter: `12.3 %`, `0.45 %`, `0.012 %`.
pub fn percent(ratio: f64) -> String {
    let p = 100.0 * ratio;
    let digits = match p.abs() {
        p if p == 0.0 || p >= 10.0 => 1,
        p if p >= 0.1 => 2,
        _ => 4,
    };
    format!("{p:.digits$} %")
}

/// `1.25 ms`, `40 uJ`, `12 W`: with a prefix that leaves one to three digits before the point.
pub fn quantity(value: f64, unit: &str) -> String {
    if value == 0.0 {
        return format!("0 {unit}");
    }
    for (prefix, size) in [("k", 1e3), ("", 1.0), ("m", 1e-3), ("u", 1e-6)] {
        if value.abs() >= size {
            return format!("{} {prefix}{unit}", three_digits(value / size));
        }
    }
    format!("{} n{unit}", three_digits(value / 1e-9))
}

fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `1 phase`, `2 phases`.
pub fn plural(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([bytes(64), bytes(32 << 10), bytes(3 << 19)], ["64 B", "32 KiB", "1.5 MiB"]);
        assert_eq!([count(950), count(1_250_000), count(3_400_000_000)], ["950", "1.25 M", "3.4 G"]);
        assert_eq!([percent(0.0), percent(0.1234), percent(0.0045)], ["0.0 %", "12.3 %", "0.45 %"]);
        assert_eq!([percent(-0.427_749), quantity(-0.00125, "s")], ["-42.8 %", "-1.25 ms"]);
        assert_eq!([count(100_000), count(20_000_000)], ["100 k", "20 M"]);
        let quantities =
            [quantity(0.0, "J"), quantity(0.00125, "s"), quantity(12.0, "W"), quantity(4e-5, "J")];
        assert_eq!(quantities, ["0 J", "1.25 ms", "12 W", "40 uJ"]);
    }
}
