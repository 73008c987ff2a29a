//! How far a search through a history came, in a file, so that the same command goes on from there.

use std::path::{Path, PathBuf};

use analyse::{BisectStep, Halfway, Metric};
use anyhow::{Context, ensure};
use model::plan::Plan;
use model::record::write_atomically;
use serde::{Deserialize, Serialize};

/// Version of the file.
const SCHEMA: u32 = 1;
/// The file, in the folder of the search.
const FILE: &str = "bisect.json";

/// What was asked and what is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    schema: u32,
    /// The plan of the first step, which has the ends and every flag.
    pub(super) plan: Plan,
    metric: Metric,
    /// The comparison of the ends, once it was made.
    pub(super) ends: Option<BisectStep>,
    /// Halfway between them, where the bad end is slower.
    pub(super) halfway: Option<Halfway>,
    /// The steps between, in order.
    pub(super) steps: Vec<BisectStep>,
    /// The commit that was found against its parent.
    pub(super) last: Option<BisectStep>,
    #[serde(skip)]
    file: PathBuf,
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
                ends: None,
                halfway: None,
                steps: Vec::new(),
                last: None,
                file,
            };
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            state.keep()?;
            return Ok(state);
        }
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let found: Self =
            serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))?;
        if !seed_given {
            plan.seed = found.plan.seed;
        }
        ensure!(
            found.schema == SCHEMA && found.metric == metric && found.plan == plan.masked(),
            "{} holds a search with other flags: choose another folder with --out",
            file.display()
        );
        Ok(Self { file, plan, ..found })
    }

    /// Writes it down.
    pub(super) fn keep(&self) -> anyhow::Result<()> {
        let kept = Self { plan: self.plan.masked(), ..self.clone() };
        let text =
            serde_json::to_string_pretty(&kept).context("the state of a search can be written as JSON")?;
        Ok(write_atomically(&self.file, (text + "\n").as_bytes())?)
    }
}
