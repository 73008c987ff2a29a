//! How far a search through a history came, in a file, so that the same command goes on from there.

use std::path::{Path, PathBuf};

use analyse::{BisectStep, Halfway, Metric};
use anyhow::{Context, ensure};
use model::plan::Plan;
use model::record::write_atomically;
use serde::{Deserialize, Serialize};

/// Version of the file: in the first one every comparison was of two commits.
const SCHEMA: u32 = 2;
/// The file, in the folder of the search.
const FILE: &str = "bisect.json";

/// What was asked and what is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    schema: u32,
    /// The plan of the first comparison, which has the ends and every flag.
    pub(super) plan: Plan,
    metric: Metric,
    /// What the first comparison says, once it was made: of the ends, then of the commit in the middle.
    pub(super) ends: Vec<BisectStep>,
    /// Halfway between the ends, where the bad one is slower.
    pub(super) halfway: Option<Halfway>,
    /// The steps between, in order, one for each comparison.
    pub(super) steps: Vec<BisectStep>,
    /// What the last comparison says.
    pub(super) last: Vec<BisectStep>,
    #[serde(skip)]
    file: PathBuf,
}

/// What is read of the file first.
#[derive(Debug, Deserialize)]
struct Version {
    schema: u32,
}

impl State {
    /// What the folder has of the search that `plan` begins; a new one where it has nothing.
    pub(super) fn open(
        folder: &Path,
        mut plan: Plan,
        metric: Metric,
        seed_given: bool,
    ) -> anyhow::Result<Self> {
        let file = folder.join(FILE);
        if !file.exists() {
            let state = Self {
                schema: SCHEMA,
                plan,
                metric,
                ends: Vec::new(),
                halfway: None,
                steps: Vec::new(),
                last: Vec::new(),
                file,
            };
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            state.keep()?;
            return Ok(state);
        }
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let damaged = || format!("{} is damaged", file.display());
        let Version { schema } = serde_json::from_str(&text).with_context(damaged)?;
        ensure!(
            schema == SCHEMA,
            "{} holds a search of another version of whyslow: choose another folder with --out",
            file.display()
        );
        let found: Self = serde_json::from_str(&text).with_context(damaged)?;
        if !seed_given {
            plan.seed = found.plan.seed;
        }
        ensure!(
            found.metric == metric && found.plan == plan.masked(),
            "{} holds a search with other flags: choose another folder with --out",
            file.display()
        );
        Ok(Self { file, plan, ..found })
    }

    /// Every commit that was compared, in order.
    pub(super) fn all_steps(&self) -> Vec<BisectStep> {
        [&self.ends[..], &self.steps, &self.last].concat()
    }

    /// Writes it down.
    pub(super) fn keep(&self) -> anyhow::Result<()> {
        let kept = Self { plan: self.plan.masked(), ..self.clone() };
        let text =
            serde_json::to_string_pretty(&kept).context("the state of a search can be written as JSON")?;
        Ok(write_atomically(&self.file, (text + "\n").as_bytes())?)
    }
}
