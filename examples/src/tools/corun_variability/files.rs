//! The result as files: pictures, tables for other programs, the whole as JSON.

use std::io::{self, Write};

use super::args::PredictArgs;
use super::{Findings, courses, figures, object, page};
use crate::cli::{ByName, Failure};
use crate::output::OutputDir;

/// Writes all files.
pub(super) fn write(args: &PredictArgs, found: &Findings, folder: &OutputDir) -> Result<(), Failure> {
    folder
        .write("corun.json", |out| writeln!(out, "{}", object::object(args, found)))
        .and_then(|()| folder.write("slowdowns.csv", |out| slowdowns(found, out)))
        .and_then(|()| folder.write("trajectory.csv", |out| trajectory(found, out)))
        .and_then(|()| folder.write("bandwidth.csv", |out| bandwidth(found, out)))
        .and_then(|()| folder.write("cophases.csv", |out| co_phases(found, out)))
        .and_then(|()| folder.write("culprits.csv", |out| culprits(found, out)))?;
    let pictures = figures::all(found)?;
    for (name, _, svg) in &pictures {
        folder.write(name, |out| out.write_all(svg.as_bytes()))?;
    }
    folder.write("report.html", |out| page::write(args, found, &pictures, out))
}

/// A row per hundredth of the time: what bandwidth is exceeded for so long.
fn bandwidth(found: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["run", "source", "share_of_time", "bytes_per_time"])?;
    let truth = found.truth.as_ref();
    let courses = [
        ("fastest", &found.answer.fastest, truth.map(|t| &t.fastest)),
        ("slowest", &found.answer.slowest, truth.map(|t| &t.slowest)),
    ];
    for (name, course, run) in courses {
        let width = courses::width(course.trajectory.time());
        let simulated = run.map(|run| ("simulated", courses::demand(run, width, found.line)));
        for (source, demand) in [Some(("predicted", course.demand.clone())), simulated].into_iter().flatten()
        {
            for hundredth in 0..=100 {
                let share = f64::from(hundredth) / 100.0;
                let row = [share, demand.exceeded_during(share)].map(|v| v.to_string());
                csv.write_record([name, source].map(str::to_owned).iter().chain(&row))?;
            }
        }
    }
    csv.flush()
}

/// The co-phase matrix: a row per set of phases that met and program.
fn co_phases(found: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let mut header: Vec<String> = found.programs.iter().map(|p| format!("phase of {}", p.name())).collect();
    let fields =
        "program,cpi,cpi_low,cpi_high,on_cliff,cache_bytes,sticky_bytes,bandwidth,solutions,residual";
    header.extend(fields.split(',').map(str::to_owned));
    csv.write_record(&header)?;
    for co_phase in &found.answer.co_phases {
        let sharing = &co_phase.sharing;
        for (share, program) in sharing.shares().iter().zip(&found.programs) {
            let mut row: Vec<String> = co_phase.phases.iter().map(u64::to_string).collect();
            row.push(program.name().to_owned());
            row.extend([share.cpi, share.cpi_range.0, share.cpi_range.1].map(|v| v.to_string()));
            row.push(share.on_cliff.to_string());
            row.extend([share.bytes, share.sticky_bytes, share.bandwidth].map(|v| v.to_string()));
            row.extend([sharing.solutions().to_string(), sharing.residual().to_string()]);
            csv.write_record(&row)?;
        }
    }
    csv.flush()
}

/// A row per set of phases that met, the most expensive first.
fn culprits(found: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let mut header: Vec<String> = found.programs.iter().map(|p| format!("phase of {}", p.name())).collect();
    header.extend(["slowdown", "time_share", "cost"].map(str::to_owned));
    csv.write_record(&header)?;
    for culprit in &found.answer.culprits {
        let phases = [culprit.phase].into_iter().chain(culprit.beside.iter().copied()).map(|p| p.to_string());
        let values = [culprit.slowdown, culprit.time_share, culprit.cost].map(|v| v.to_string());
        csv.write_record(phases.chain(values))?;
    }
    csv.flush()
}

/// A row per program and stretch of time of the slowest run.
fn trajectory(found: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["program", "source", "start", "cpi", "cache_bytes", "bandwidth"])?;
    for (number, program) in found.programs.iter().enumerate() {
        for (source, bins) in found.courses(number).map_err(|f| io::Error::other(f.to_string()))? {
            for bin in bins {
                let values = [bin.start, bin.cpi(), bin.bytes, bin.bandwidth].map(|v| v.to_string());
                let row = [program.name().to_owned(), source.to_owned()].into_iter().chain(values);
                csv.write_record(row)?;
            }
        }
    }
    csv.flush()
}

/// A row per run.
fn slowdowns(found: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let mut header = vec!["run".to_owned()];
    header.extend(found.programs[1..].iter().map(|p| format!("offset of {}", p.name())));
    header.extend(found.answer.methods.iter().map(|by| by.method.name()));
    header.push("simulated".to_owned());
    csv.write_record(header)?;
    for run in 0..found.answer.chosen().slowdowns.len() {
        let offsets = found.offsets.of_run(run, found.programs.len());
        let mut row = vec![run.to_string()];
        row.extend(offsets[1..].iter().map(f64::to_string));
        row.extend(found.answer.methods.iter().map(|by| by.variability.slowdowns[run].to_string()));
        let simulated = found.truth.as_ref().and_then(|truth| truth.slowdowns.get(run));
        row.push(simulated.map_or_else(String::new, f64::to_string));
        csv.write_record(row)?;
    }
    csv.flush()
}
