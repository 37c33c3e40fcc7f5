//! What a process has used, as the kernel counts it.

use std::fs;
use std::io;

/// Ticks of `/proc/PID/stat` in a second: `USER_HZ`, which is 100 on every Linux that we know.
const TICKS_PER_SECOND: f64 = 100.0;

const KIBIBYTES_PER_MEBIBYTE: f64 = 1024.0;

/// CPU and memory of one process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Its own, and that of children that have ended: the daemon fetches and pushes in such.
    pub cpu_seconds: f64,
    /// Most that was resident at once since it began, without children.
    pub peak_mebibytes: f64,
}

impl Usage {
    /// Reads what a process has used so far.
    ///
    /// # Errors
    /// It is gone, or this is no Linux.
    pub fn of(process: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let cpu_seconds = cpu_seconds(&stat).ok_or_else(|| unreadable("stat"))?;
        let peak_mebibytes = peak_mebibytes(&status).ok_or_else(|| unreadable("status"))?;
        Ok(Self { cpu_seconds, peak_mebibytes })
    }

    /// Returns what was used since `before`; the peak stays that of the whole life.
    pub fn since(self, before: Self) -> Self {
        Self { cpu_seconds: self.cpu_seconds - before.cpu_seconds, ..self }
    }
}

/// Sums utime, stime, cutime and cstime: fields 14 to 17, counted after the name in parentheses,
/// which may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: Vec<u32> = fields
        .split(' ')
        .skip(11)
        .take(4)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let sum: f64 = ticks.iter().map(|ticks| f64::from(*ticks)).sum();
    (ticks.len() == 4).then_some(sum / TICKS_PER_SECOND)
}

fn peak_mebibytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes / KIBIBYTES_PER_MEBIBYTE)
}

fn unreadable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc/PID/{what} has another shape"))
}
