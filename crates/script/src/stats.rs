use mlua::{Lua, MetaMethod, Table, UserData, UserDataFields, UserDataMethods};

/// Values with their counts, as `done` is given them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// The different values in rising order, each with how often it came.
    pub values: Vec<(f64, u64)>,
}

impl Stats {
    /// The value below which `percent` of all are; 0 without any.
    ///
    /// Source: the nearest rank; wrk 4.1 rounds the rank up by one where it is whole.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        let count: u64 = self.values.iter().map(|(_, count)| count).sum();
        let rank = (percent / 100.0 * count as f64).ceil();
        let mut below = 0;
        let reached = self.values.iter().find(|(_, count)| {
            below += count;
            below as f64 >= rank
        });
        reached.or(self.values.last()).map_or(0.0, |(value, _)| *value)
    }

    /// The value with number `index`, from 1, and its count; zeros where there is none.
    fn nth(&self, index: f64) -> (f64, u64) {
        let place = if index >= 1.0 { index as usize - 1 } else { usize::MAX };
        self.values.get(place).copied().unwrap_or_default()
    }
}

impl UserData for Stats {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, stats| Ok(stats.min));
        fields.add_field_method_get("max", |_, stats| Ok(stats.max));
        fields.add_field_method_get("mean", |_, stats| Ok(stats.mean));
        fields.add_field_method_get("stdev", |_, stats| Ok(stats.stdev));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("percentile", |_, stats, percent: f64| Ok(stats.percentile(percent)));
        methods.add_meta_method(MetaMethod::Len, |_, stats, ()| Ok(stats.values.len()));
        methods.add_meta_method(MetaMethod::Index, |_, stats, index: f64| Ok(stats.nth(index).0));
        methods.add_meta_method(MetaMethod::Call, |_, stats, index: f64| Ok(stats.nth(index)));
    }
}

/// Errors of a run, as `summary.errors`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Errors {
    /// Connections that could not be opened.
    pub connect: u64,
    /// Reads that failed.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Answers with a status of 400 or above.
    pub status: u64,
    /// Requests unanswered for too long.
    pub timeout: u64,
}

/// A run, as `done` is given it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Length of the window in microseconds.
    pub duration_us: u64,
    /// Requests completed.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What failed.
    pub errors: Errors,
}

impl Summary {
    pub(crate) fn table(&self, lua: &Lua) -> mlua::Result<Table> {
        let Errors { connect, read, write, status, timeout } = self.errors;
        let errors = [
            ("connect", connect),
            ("read", read),
            ("write", write),
            ("status", status),
            ("timeout", timeout),
        ];
        let table = lua.create_table()?;
        table.raw_set("duration", self.duration_us)?;
        table.raw_set("requests", self.requests)?;
        table.raw_set("bytes", self.bytes)?;
        table.raw_set("errors", lua.create_table_from(errors)?)?;
        Ok(table)
    }
}
