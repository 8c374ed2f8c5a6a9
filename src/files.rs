//! Reading inputs and writing packs. A file appears whole or not at all: it is written beside its place and renamed.

use crate::exit::CommandError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file of a scenario's directory, and of every pack.
pub const MANIFEST: &str = "workload-manifest.yaml";
/// See [`MANIFEST`].
pub const SCENARIO: &str = "scenario.yaml";
/// The engine's profile, in every pack.
pub const PROFILE: &str = "profile.yaml";
/// A row a measured attempt of a point.
pub const REQUESTS: &str = "requests.csv";
/// The analyzer's report on a point.
pub const REPORT: &str = "slo-report.json";
/// The replicas of a point over time.
pub const TIMELINE: &str = "timeline.csv";
/// The pictures of a point or a study.
pub const PAGE: &str = "report.html";
/// A row an operating point that was imported.
pub const POINTS: &str = "points.csv";
/// What was imported from where.
pub const IMPORT: &str = "import.json";
/// The plan for a peak.
pub const PLAN: &str = "plan.json";
/// A row a point of a study.
pub const SUMMARY: &str = "summary.csv";

/// The name of a file that is being written begins and ends so. One that is left over was left by a kill.
const UNFINISHED: (&str, &str) = (".scaleproof-", ".tmp");

/// Inputs beyond this are refused before they are read, in bytes.
const INPUT_MAX_BYTES: u64 = 4 << 30;

/// Reads an input file whole.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, CommandError> {
    let fail = |found: String, hint: &str| {
        CommandError::bad_input(format!(
            "{}: found {found}; expected a readable file; {hint}",
            path.display()
        ))
    };
    let found = fs::metadata(path).map_err(|e| fail(e.to_string(), "check the path"))?;
    if found.is_dir() {
        return Err(fail("a directory".into(), "name a file in it"));
    }
    if found.len() > INPUT_MAX_BYTES {
        return Err(fail(format!("{} bytes", found.len()), "at most 4 GiB"));
    }
    fs::read(path).map_err(|e| fail(e.to_string(), "check its permissions"))
}

/// Reads an input file as text.
pub fn read_text(path: &Path) -> Result<String, CommandError> {
    String::from_utf8(read_bytes(path)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() + 1;
        CommandError::bad_input(format!(
            "{}:{line}: found a byte that is not UTF-8; expected UTF-8 text; save the file as UTF-8",
            path.display()
        ))
    })
}

/// A file being written. Dropped without [`Pending::keep`], it leaves nothing behind.
pub struct Pending {
    writer: BufWriter<Target>,
    path: PathBuf,
}

/// Where the bytes go until the file is kept.
enum Target {
    /// Beside its place.
    Beside(NamedTempFile),
    /// A device or a pipe: it can only be written where it is, and must not be replaced by a file. Or a file of which
    /// even a part is worth keeping.
    InPlace(File),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Beside(file) => file.write(bytes),
            Target::InPlace(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Beside(file) => file.flush(),
            Target::InPlace(file) => file.flush(),
        }
    }
}

impl Pending {
    /// Begins a file that will be at `path`.
    pub fn create(path: &Path) -> Result<Pending, CommandError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let special = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let target = if special {
            OpenOptions::new().write(true).open(path).map(Target::InPlace)
        } else {
            let (prefix, suffix) = UNFINISHED;
            tempfile::Builder::new().prefix(prefix).suffix(suffix).tempfile_in(folder).map(Target::Beside)
        };
        let target = target.map_err(|error| unwritable(path, &error))?;
        Ok(Pending { writer: BufWriter::with_capacity(1 << 18, target), path: path.to_owned() })
    }

    /// Begins a file that is at `path` from now on, with whatever has been flushed.
    pub fn in_place(path: &Path) -> Result<Pending, CommandError> {
        let target = File::create(path).map(Target::InPlace).map_err(|error| unwritable(path, &error))?;
        Ok(Pending { writer: BufWriter::with_capacity(1 << 18, target), path: path.to_owned() })
    }

    /// Puts the file in its place.
    pub fn keep(self) -> Result<(), CommandError> {
        let path = self.path;
        let target = self.writer.into_inner().map_err(|error| unwritable(&path, error.error()))?;
        let Target::Beside(file) = target else { return Ok(()) };
        set_usual_permissions(&file).map_err(|error| unwritable(&path, &error))?;
        file.persist(&path).map_err(|error| unwritable(&path, &error.error))?;
        Ok(())
    }
}

/// Temporary files are private; what is kept is for everyone whom the process's own files are for.
fn set_usual_permissions(file: &NamedTempFile) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644))
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// The error of a file that cannot be written.
pub fn unwritable(path: &Path, error: &io::Error) -> CommandError {
    // A temporary file's error names that file, which nobody asked for; its kind does not.
    let cause = match error.kind() {
        io::ErrorKind::NotFound => "no such folder".to_owned(),
        kind if error.get_ref().is_some() => kind.to_string(),
        _ => error.to_string(),
    };
    CommandError::could_not_run(format!(
        "{}: found {cause}; expected to write there; check the path, free space, or choose another --out",
        path.display()
    ))
}

/// Writes a file at once.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    let mut file = Pending::create(path)?;
    file.write_all(bytes).map_err(|error| unwritable(path, &error))?;
    file.keep()
}

/// Copies a file to one that appears whole or not at all.
pub fn copy(from: &Path, to: &Path) -> Result<(), CommandError> {
    let mut file = Pending::create(to)?;
    File::open(from)
        .and_then(|mut source| io::copy(&mut source, &mut file))
        .map_err(|e| unwritable(to, &e))?;
    file.keep()
}

/// A directory that this process alone writes to, until it drops this or ends, however it ends.
pub struct OutputDirectory {
    /// Where.
    pub path: PathBuf,
    /// Whether this process made it.
    made: bool,
    /// The system's own lock on the directory: a killed process leaves none behind. None where the file system has
    /// no locks.
    _lock: Option<File>,
}

impl OutputDirectory {
    fn claim(path: PathBuf, made: bool) -> Result<OutputDirectory, CommandError> {
        let lock = File::open(&path).map_err(|error| unwritable(&path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(OutputDirectory { path, made, _lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => Err(CommandError::could_not_run(format!(
                "{}: found another scaleproof command that writes to it; expected none; wait for its end, or choose \
                 another --out (the lock ends with that process: no file is to be removed)",
                path.display()
            ))),
            Err(TryLockError::Error(_)) => Ok(OutputDirectory { path, made, _lock: None }),
        }
    }

    /// Removes all that is in it, and the directory unless it was there before: only for what began empty. What cannot be
    /// removed stays; the reason for removing it is the error to tell.
    pub fn discard(&self) {
        for path in entries(&self.path) {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            let _ = removed;
        }
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Removes the unfinished files that a killed process left in it and in its points.
    fn sweep_up(&self) {
        let mut folders = vec![self.path.clone()];
        folders.extend(entries(&self.path.join("points")));
        let (prefix, suffix) = UNFINISHED;
        for file in folders.iter().flat_map(|folder| entries(folder)) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(prefix) && name.ends_with(suffix) {
                // It is in nobody's way: whatever keeps it from being removed shows when something is written.
                let _ = fs::remove_file(&file);
            }
        }
    }
}

/// What is in a folder, by name; nothing if it cannot be read.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Makes the directory that a command writes to: the given one, or `out/NAME`, `out/NAME-2`, ... whichever is new.
/// One with something in it is only taken to `resume`: no command writes over what another has left.
pub fn output_directory(
    given: Option<&Path>,
    name: &str,
    resume: bool,
) -> Result<OutputDirectory, CommandError> {
    if let Some(path) = given {
        let made = !path.exists();
        fs::create_dir_all(path).map_err(|error| unwritable(path, &error))?;
        let claimed = OutputDirectory::claim(path.to_owned(), made)?;
        if !entries(path).is_empty() && !resume {
            return Err(CommandError::bad_input(format!(
                "{}: found files in it; expected a new or empty directory; give another --out, or --resume where the \
                 command has it",
                path.display()
            )));
        }
        claimed.sweep_up();
        return Ok(claimed);
    }
    let parent = Path::new("out");
    fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
    for number in 1..100_000u32 {
        let path = parent.join(if number == 1 { name.to_owned() } else { format!("{name}-{number}") });
        match fs::create_dir(&path) {
            Ok(()) => return OutputDirectory::claim(path, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable(&path, &error)),
        }
    }
    Err(CommandError::could_not_run(
        "out/: found 100,000 packs of this name; expected room; name one with --out",
    ))
}
