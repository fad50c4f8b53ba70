//! Phase profiles in Parquet: a row per window, so that the windows of many runs can be queried as one table. All else
//! is the JSON of the profile without windows, under the key `phase-profile` of the file's metadata.
//!
//! | column | type |
//! |---|---|
//! | `window`, `instructions` | unsigned, 64 bits |
//! | `thread` | unsigned, 32 bits |
//! | `accesses` | unsigned, 64 bits; null where they are not known |
//! | `phase` | string |
//!
//! Columns are found by name; others are ignored.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use reuse_sampler::file::{FORMAT, FileError, PhaseProfile, ProfiledWindow};

const SCHEMA: &str = "message windows {
    required int64 window (INTEGER(64,false));
    required int32 thread (INTEGER(32,false));
    required int64 instructions (INTEGER(64,false));
    optional int64 accesses (INTEGER(64,false));
    required binary phase (UTF8);
}";

/// The file's content.
pub(super) fn write(profile: &PhaseProfile) -> Result<Vec<u8>, FileError> {
    let mut rest = profile.clone();
    let windows = std::mem::take(&mut rest.windows);
    profile.check()?;
    let mut header = Vec::new();
    rest.write(&mut header)?;
    let header = String::from_utf8_lossy(&header).trim_end().to_owned();
    let stored = || -> Result<Vec<u8>, ParquetError> {
        let header = KeyValue::new(FORMAT.to_owned(), header);
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![header])).build();
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut rows = file.next_row_group()?;
        let numbers = |of: fn(&ProfiledWindow) -> u64| -> Vec<i64> {
            windows.iter().map(|window| of(window) as i64).collect()
        };
        for column in 0.. {
            let Some(mut out) = rows.next_column()? else { break };
            match column {
                0 => out.typed::<Int64Type>().write_batch(&numbers(|w| w.window), None, None)?,
                1 => {
                    let threads: Vec<i32> = windows.iter().map(|w| w.thread as i32).collect();
                    out.typed::<Int32Type>().write_batch(&threads, None, None)?
                }
                2 => out.typed::<Int64Type>().write_batch(&numbers(|w| w.instructions), None, None)?,
                3 => {
                    let known: Vec<i64> =
                        windows.iter().filter_map(|w| w.accesses).map(|n| n as i64).collect();
                    let is_known: Vec<i16> = windows.iter().map(|w| w.accesses.is_some().into()).collect();
                    out.typed::<Int64Type>().write_batch(&known, Some(&is_known), None)?
                }
                _ => {
                    let phases: Vec<ByteArray> = windows.iter().map(|w| w.phase.as_str().into()).collect();
                    out.typed::<ByteArrayType>().write_batch(&phases, None, None)?
                }
            };
            out.close()?;
        }
        rows.close()?;
        file.into_inner()
    };
    stored().map_err(|error| FileError::Io(io::Error::other(error)))
}

/// The profile in a file.
pub(super) fn read(file: File) -> Result<PhaseProfile, FileError> {
    let file = SerializedFileReader::new(file).map_err(|error| broken(&error))?;
    let metadata = file.metadata().file_metadata().key_value_metadata();
    let header = metadata.into_iter().flatten().find(|entry| entry.key == FORMAT);
    let header = header
        .and_then(|entry| entry.value.as_deref())
        .ok_or_else(|| FileError::Syntax(format!("a Parquet file without {FORMAT:?} in its metadata")))?;
    let mut profile = PhaseProfile::read(header.as_bytes())?;
    for group in 0..file.num_row_groups() {
        let rows = file.get_row_group(group).map_err(|error| broken(&error))?;
        append(&*rows, &mut profile.windows)?;
    }
    profile.check()?;
    Ok(profile)
}

/// Reads the windows of a row group.
fn append(rows: &dyn RowGroupReader, windows: &mut Vec<ProfiledWindow>) -> Result<(), FileError> {
    let count = rows.metadata().num_rows();
    let count = usize::try_from(count).map_err(|_| FileError::Syntax(format!("{count} windows")))?;
    let column = |name: &str| {
        let columns = rows.metadata().columns();
        let at = columns.iter().position(|column| column.column_path().string() == name);
        let at = at.ok_or_else(|| FileError::Syntax(format!("no column {name:?}")))?;
        rows.get_column_reader(at).map_err(|error| broken(&error))
    };
    let longs = |name: &str| match column(name)? {
        ColumnReader::Int64ColumnReader(column) => values(name, column, count),
        _ => Err(FileError::Syntax(format!("column {name:?} is not of 64-bit numbers"))),
    };
    let threads = match column("thread")? {
        ColumnReader::Int32ColumnReader(column) => values("thread", column, count)?,
        _ => return Err(FileError::Syntax("column \"thread\" is not of 32-bit numbers".to_owned())),
    };
    let phases = match column("phase")? {
        ColumnReader::ByteArrayColumnReader(column) => values("phase", column, count)?,
        _ => return Err(FileError::Syntax("column \"phase\" is not of strings".to_owned())),
    };
    let columns = longs("window")?.into_iter().zip(longs("instructions")?).zip(longs("accesses")?);
    for (((window, instructions), accesses), (thread, phase)) in columns.zip(threads.into_iter().zip(phases))
    {
        let (Some(window), Some(thread), Some(instructions), Some(phase)) =
            (window, thread, instructions, phase)
        else {
            return Err(FileError::Syntax("a null in a column other than \"accesses\"".to_owned()));
        };
        windows.push(ProfiledWindow {
            window: window as u64,
            thread: thread as u32,
            instructions: instructions as u64,
            accesses: accesses.map(|n| n as u64),
            phase: phase.as_utf8().map_err(|error| broken(&error))?.to_owned(),
        });
    }
    Ok(())
}

/// All `count` values of a column, `None` for nulls.
fn values<T: DataType>(
    name: &str,
    mut column: ColumnReaderImpl<T>,
    count: usize,
) -> Result<Vec<Option<T::T>>, FileError> {
    const BATCH: usize = 1 << 16; // what the file says of its length is not memory to be reserved
    let (mut found, mut levels, mut rows) = (Vec::new(), Vec::new(), 0);
    while rows < count {
        let batch = column.read_records(BATCH.min(count - rows), Some(&mut levels), None, &mut found);
        let (read, ..) = batch.map_err(|error| broken(&error))?;
        if read == 0 {
            return Err(FileError::Syntax(format!("column {name:?} ends after {rows} of {count} windows")));
        }
        rows += read;
    }
    if levels.is_empty() {
        return Ok(found.into_iter().map(Some).collect());
    }
    let mut found = found.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { found.next() } else { None }).collect())
}

fn broken(error: &ParquetError) -> FileError {
    FileError::Syntax(format!("a damaged Parquet file: {error}"))
}
