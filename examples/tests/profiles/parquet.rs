//! Profiles in Parquet hold what those in JSON hold.

use quickcheck::quickcheck;

use super::*;
use examples::profiles;

fn json(profile: &PhaseProfile) -> String {
    let mut text = Vec::new();
    profile.write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn there_and_back(profile: &PhaseProfile) -> String {
    let folder = Folder::new();
    let path = folder.path("p.parquet");
    profiles::write(profile, &path).unwrap();
    assert!(fs::read(&path).unwrap().starts_with(b"PAR1"));
    json(&profiles::read(&path).unwrap())
}

quickcheck! {
    /// Every number and every string, to the last bit.
    fn round_trips_are_exact(
        windows: Vec<(u64, u32, u64, Option<u64>, bool)>,
        mix: u64,
        code: Vec<(String, u64)>,
        names: (String, String),
        section: (String, Vec<String>)
    ) -> bool {
        let number = |bits: u64| Some(f64::from_bits(bits).abs()).filter(|x| x.is_finite()).unwrap_or(0.1);
        let share = |bits| { let x: f64 = number(bits); if x > 1.0 { x.recip() } else { x } };
        let mut profile = example();
        profile.windows.clear();
        profile.phases[0].accesses_per_instruction = Some(share(mix));
        let parts = code.len() as f64;
        profile.phases[0].code = code.into_iter().map(|(name, bits)| (name, share(bits) / parts)).collect();
        profile.phases[1].hottest_code = Some(names.0.clone());
        profile.phases[1].phase = format!("B{}", names.0);
        profile.program = names.1;
        profile.set_section(section.0, &section.1).unwrap();
        let mut numbers = std::collections::HashSet::new();
        for phase in &mut profile.phases {
            (phase.windows, phase.profiled, phase.instructions) = (0, 0, 0);
        }
        for (window, thread, instructions, accesses, first) in windows {
            if !numbers.insert(window) {
                continue;
            }
            let phase = &mut profile.phases[usize::from(!first)];
            (phase.windows, phase.profiled) = (phase.windows + 1, 1);
            let (phase, instructions) = (phase.phase.clone(), instructions >> 8); // a sum of 64 bits
            profile.windows.push(ProfiledWindow { window, thread, instructions, accesses, phase });
        }
        there_and_back(&profile) == json(&profile)
    }

    /// Cut off anywhere, and with bytes changed: an error or a profile that can be written, never a panic.
    fn hostile_files_are_refused(cut: usize, changes: Vec<(usize, u8)>) -> bool {
        let folder = Folder::new();
        let path = folder.path("p.parquet");
        profiles::write(&example(), &path).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte) in changes.into_iter().take(8) {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            profiles::read(&path)
        };
        let (whole, cut) = (read(&bytes), read(&bytes[..cut % bytes.len()]));
        [whole, cut].into_iter().flatten().all(|profile| profile.write(std::io::sink()).is_ok())
    }
}

#[test]
fn commands_read_and_write_it_by_its_ending() {
    let folder = Folder::new();
    let good = folder.file("good.json", value().to_string());
    let columns = folder.path("p.parquet");
    let columns = columns.to_str().unwrap();
    profiles::write(&example(), std::path::Path::new(columns)).unwrap();
    for command in ["predict", "compare", "frequency"] {
        let of = |path: &str| run(command, path, path, "").out.replace(path, "p");
        assert_eq!(of(columns), of(&good), "{command}");
    }
    let (a, b) = (folder.path("a.json"), folder.path("b.parquet"));
    assert_eq!(run("record", &good, "", a.to_str().unwrap()).status, 0);
    assert_eq!(run("record", columns, "", b.to_str().unwrap()).status, 0);
    assert_eq!(profiles::read(&a).unwrap(), profiles::read(&b).unwrap());
}
