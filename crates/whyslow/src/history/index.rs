//! The index of runs: what lists and histories need of each run, so that not every run is analysed each time.
//!
//! It holds nothing that is not in the run directories: whatever is wrong with it, it is thrown away and made anew.

use std::collections::BTreeMap;
use std::path::Path;

use analyse::{Figure, Metric};
use anyhow::Context;
use model::record::{Run, RunDir, RunStatus};
use report::{HistoryPoint, HistorySeries, ListedRun};
use rusqlite::{Connection, Row, params};

use super::shelf::{Shelf, Stamp};

/// File of the index, beside the runs.
const FILE: &str = "index.sqlite";
/// What the tables below are called; an index of another version is made anew.
const VERSION: i64 = 3;

const TABLES: &str = "
    DROP TABLE IF EXISTS runs;
    DROP TABLE IF EXISTS figures;
    CREATE TABLE runs (
        name TEXT PRIMARY KEY, stamp TEXT NOT NULL, started_unix_s INTEGER NOT NULL, case_name TEXT NOT NULL,
        status TEXT NOT NULL, host TEXT NOT NULL, workload TEXT NOT NULL, says TEXT NOT NULL
    ) STRICT;
    CREATE TABLE figures (
        name TEXT NOT NULL, arm TEXT NOT NULL, target TEXT NOT NULL, metric TEXT NOT NULL, condition TEXT NOT NULL,
        value REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, rounds INTEGER NOT NULL,
        state TEXT, revision TEXT, changed INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX figures_of_run ON figures (name);
";

/// An open index.
pub(crate) struct Index {
    db: Connection,
}

impl Index {
    /// The index in `folder`; one in memory where none is named, or where the folder cannot be written.
    ///
    /// # Errors
    /// If not even an index in memory can be made.
    pub(crate) fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let kept = folder.and_then(|folder| Self::open_file(&folder.join(FILE)).ok());
        kept.map_or_else(Self::in_memory, Ok)
    }

    fn in_memory() -> anyhow::Result<Self> {
        let db = Connection::open_in_memory().context("cannot make an index")?;
        db.execute_batch(TABLES).context("cannot make an index")?;
        Ok(Self { db })
    }

    /// The index in `file`. What is there and is none of ours stays as it is, and is an error.
    fn open_file(file: &Path) -> rusqlite::Result<Self> {
        let db = Connection::open(file)?;
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != VERSION {
            db.execute_batch(TABLES)?;
            db.pragma_update(None, "user_version", VERSION)?;
        }
        Ok(Self { db })
    }

    /// Brings the index up to the runs that there are: what changed is read again, what is gone is forgotten.
    ///
    /// # Errors
    /// If the index cannot be written.
    pub(crate) fn refresh(&mut self, shelf: &Shelf) -> anyhow::Result<()> {
        let runs = shelf.runs();
        let known = self.stamps().context("cannot read the index")?;
        let change = self.db.transaction().context("cannot write the index")?;
        for name in known.keys().filter(|name| !runs.contains_key(*name)) {
            forget(&change, name)?;
        }
        for (name, path) in &runs {
            let stamp = format!("{} {}", env!("CARGO_PKG_VERSION"), Stamp::read(path).text());
            if known.get(name) != Some(&stamp) {
                forget(&change, name)?;
                insert(&change, name, &stamp, path).with_context(|| format!("cannot index {name}"))?;
            }
        }
        change.commit().context("cannot write the index")
    }

    fn stamps(&self) -> rusqlite::Result<BTreeMap<String, String>> {
        let mut query = self.db.prepare("SELECT name, stamp FROM runs")?;
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Every run, newest first.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub(crate) fn runs(&self) -> anyhow::Result<Vec<ListedRun>> {
        let mut query = self.db.prepare(
            "SELECT name, started_unix_s, case_name, status, host, says FROM runs ORDER BY started_unix_s DESC, name",
        )?;
        let listed = |row: &Row| {
            let says: String = row.get(5)?;
            Ok(ListedRun {
                name: row.get(0)?,
                started_unix_s: row.get(1)?,
                case: row.get(2)?,
                status: row.get(3)?,
                host: row.get(4)?,
                says: says.lines().map(str::to_owned).collect(),
            })
        };
        Ok(query.query_map([], listed)?.collect::<Result<_, _>>()?)
    }

    /// Names of all arms and targets, in order.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub(crate) fn names(&self) -> anyhow::Result<Vec<String>> {
        let mut query =
            self.db.prepare("SELECT arm FROM figures UNION SELECT target FROM figures WHERE target <> ''")?;
        Ok(query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// Figures of complete runs as series, oldest run first; of one arm or target where it is named.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub(crate) fn series(&self, target: Option<&str>) -> anyhow::Result<Vec<HistorySeries>> {
        let mut query = self.db.prepare(
            "SELECT arm, metric, condition, case_name || ': ' || workload, host,
                    runs.name, started_unix_s, value, low, high, rounds, state, revision, changed
             FROM figures JOIN runs ON figures.name = runs.name
             WHERE status = 'complete' AND (?1 IS NULL OR arm = ?1 OR target = ?1)
             ORDER BY 4, 5, arm, figures.rowid, started_unix_s, runs.name",
        )?;
        let mut series: Vec<HistorySeries> = Vec::new();
        let mut rows = query.query(params![target])?;
        while let Some(row) = rows.next()? {
            let Some(key) = key(row)? else { continue };
            let same = |one: &&mut HistorySeries| {
                (&one.arm, one.metric, &one.condition, &one.workload, &one.host)
                    == (&key.arm, key.metric, &key.condition, &key.workload, &key.host)
            };
            let point = point(row)?;
            match series.iter_mut().find(same) {
                Some(one) => one.points.push(point),
                None => series.push(HistorySeries { points: vec![point], ..key }),
            }
        }
        for one in &mut series {
            one.points.sort_by(|a, b| (a.started_unix_s, &a.run).cmp(&(b.started_unix_s, &b.run)));
        }
        Ok(series)
    }
}

/// The series that a row belongs to, without its points; nothing for a metric that this version does not know.
fn key(row: &Row) -> rusqlite::Result<Option<HistorySeries>> {
    let metric: String = row.get(1)?;
    let Ok(metric) = serde_json::from_value::<Metric>(metric.into()) else { return Ok(None) };
    Ok(Some(HistorySeries {
        arm: row.get(0)?,
        metric,
        condition: row.get(2)?,
        workload: row.get(3)?,
        host: row.get(4)?,
        points: Vec::new(),
    }))
}

fn point(row: &Row) -> rusqlite::Result<HistoryPoint> {
    Ok(HistoryPoint {
        run: row.get(5)?,
        started_unix_s: row.get(6)?,
        value: row.get(7)?,
        low: row.get(8)?,
        high: row.get(9)?,
        rounds: row.get(10)?,
        state: row.get(11)?,
        commit: row.get(12)?,
        changed: row.get(13)?,
        change_p: None,
    })
}

fn forget(db: &Connection, name: &str) -> anyhow::Result<()> {
    db.execute("DELETE FROM runs WHERE name = ?1", [name])?;
    db.execute("DELETE FROM figures WHERE name = ?1", [name])?;
    Ok(())
}

fn insert(db: &Connection, name: &str, stamp: &str, path: &Path) -> anyhow::Result<()> {
    let add = |row: &Indexed| {
        db.execute(
            "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![name, stamp, row.started_unix_s, row.case, row.status, row.host, row.workload, row.says],
        )
    };
    match RunDir::open(path).read() {
        Ok(run) => {
            add(&Indexed::from_run(&run))?;
            for figure in analyse::figures(&run) {
                insert_figure(db, name, &run, &figure)?;
            }
        }
        Err(error) => {
            let says = format!("it cannot be read: {error}");
            add(&Indexed { case: "unknown".to_owned(), status: "unreadable", says, ..Indexed::default() })?;
        }
    }
    Ok(())
}

fn insert_figure(db: &Connection, name: &str, run: &Run, figure: &Figure) -> anyhow::Result<()> {
    let arm = run.manifest.plan.arms.iter().find(|arm| arm.name == figure.arm);
    let target = match arm.map(|arm| &arm.source) {
        Some(model::plan::ArmSource::BuiltIn { model }) => model.clone(),
        Some(model::plan::ArmSource::Target { name, .. }) => name.clone(),
        Some(model::plan::ArmSource::Image(image)) => image.name(),
        Some(model::plan::ArmSource::Compose(compose)) => compose.name(),
        Some(_) | None => String::new(),
    };
    let revision = arm.and_then(|arm| arm.source.revision());
    let metric = serde_json::to_value(figure.metric).context("a metric is a word")?;
    db.execute(
        "INSERT INTO figures VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            name,
            figure.arm,
            target,
            metric.as_str(),
            figure.condition,
            figure.value,
            figure.low,
            figure.high,
            figure.rounds,
            arm.and_then(|arm| run.manifest.state(arm)),
            revision.and_then(|revision| revision.commit.clone()),
            revision.is_some_and(|revision| revision.changed)
        ],
    )?;
    Ok(())
}

/// A run as a row.
#[derive(Debug, Default)]
struct Indexed {
    started_unix_s: u64,
    case: String,
    status: &'static str,
    host: String,
    workload: String,
    says: String,
}

impl Indexed {
    fn from_run(run: &Run) -> Self {
        let findings = report::worded(analyse::analyse(run));
        let others = findings.arms.iter().filter(|arm| arm.name != findings.baseline);
        let says: Vec<String> = others.map(|arm| report::headline(&findings, &arm.name)).collect();
        Self {
            started_unix_s: run.manifest.started_unix_s,
            case: findings.case.clone(),
            status: match run.manifest.status {
                RunStatus::Running => "running",
                RunStatus::Complete => "complete",
                RunStatus::Partial => "partial",
            },
            host: run.host.machine(),
            workload: findings.workload.clone(),
            says: says.join("\n"),
        }
    }
}
