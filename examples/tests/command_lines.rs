//! Every pipeline takes the program to run, with the program's own flags, after its own flags, with `--` or without.

use std::fmt::Debug;

use clap::Parser;
use examples::cli::{CommandLine, command};
use examples::reference::accuracy;
use examples::tools::{
    cache_pirate, compare_detectors, compare_profiles, convert_trace, corun_variability, detect_phases,
    miss_ratio_curve, phase_guided_cache, phase_guided_vs_periodic, power_frequency, reproduce,
    statcc_accuracy, what_can_i_measure,
};

fn takes_a_program<A: Parser + Debug>() {
    let read = |words: &[&str]| A::try_parse_from([&["pipeline"], words].concat());
    let bare = read(&["--seed", "7", "sort", "--json", "-r", "words"]).unwrap();
    let dashed = read(&["--seed", "7", "--", "sort", "--json", "-r", "words"]).unwrap();
    assert_eq!(format!("{bare:?}"), format!("{dashed:?}"));
    assert!(format!("{bare:?}").contains(r#"["sort", "--json", "-r", "words"]"#), "{bare:?}");
    assert!(format!("{bare:?}").contains("json: false"), "{bare:?}");
    // A mistyped flag of the pipeline's is not a program.
    assert!(read(&["--sead", "7", "sort"]).is_err());
}

#[test]
fn a_program_and_its_flags_come_last() {
    takes_a_program::<cache_pirate::Args>();
    takes_a_program::<compare_detectors::Args>();
    takes_a_program::<detect_phases::Args>();
    takes_a_program::<miss_ratio_curve::Args>();
    takes_a_program::<phase_guided_cache::Args>();
    takes_a_program::<phase_guided_vs_periodic::Args>();
    takes_a_program::<power_frequency::Args>();
}

/// The words of a command line as a shell separates them, double quotes being the only ones.
fn words(line: &str) -> Vec<String> {
    let quoted = line
        .split('"')
        .enumerate()
        .flat_map(|(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() });
    quoted.map(str::to_owned).collect()
}

fn helps<A: CommandLine>() {
    let name = A::command().get_name().to_owned();
    for long in [false, true] {
        let help = if long { command::<A>().render_long_help() } else { command::<A>().render_help() };
        let help = help.to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        for (what, arguments) in A::EXAMPLES {
            assert!(help.contains(&format!("  # {what}\n  cargo run --release --example {name}")), "{help}");
            assert!(
                help.contains(arguments),
                "{name} {arguments}: broken over two lines, and cannot be copied"
            );
        }
    }
    for sub in command::<A>().get_subcommands_mut() {
        let help = sub.render_long_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        let own = format!("cargo run --release --example {name} -- {} ", sub.get_name());
        assert!(help.matches(&own).count() > 1, "{help}");
    }
    assert!(A::EXAMPLES.len() > 1, "{name}");
    for (_, arguments) in A::EXAMPLES {
        let line = std::iter::once(name.clone()).chain(words(arguments));
        assert!(
            A::try_parse_from(line).is_ok(),
            "{name} {arguments}: {:?}",
            A::try_parse_from(words(arguments)).err()
        );
    }
}

#[test]
fn help_fits_a_hundred_columns_and_its_examples_are_command_lines() {
    helps::<accuracy::Args>();
    helps::<cache_pirate::Args>();
    helps::<compare_detectors::Args>();
    helps::<compare_profiles::Args>();
    helps::<convert_trace::Args>();
    helps::<corun_variability::Args>();
    helps::<detect_phases::Args>();
    helps::<miss_ratio_curve::Args>();
    helps::<phase_guided_cache::Args>();
    helps::<phase_guided_vs_periodic::Args>();
    helps::<power_frequency::Args>();
    helps::<reproduce::Args>();
    helps::<statcc_accuracy::Args>();
    helps::<what_can_i_measure::Args>();
}
