use std::fs;

/// User and kernel ticks of this process so far, from `/proc/self/stat`.
///
/// Source: proc_pid_stat(5), fields 14 and 15.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub(crate) user: u64,
    pub(crate) system: u64,
}

impl Ticks {
    /// Zero where `/proc` is not to be read.
    pub(crate) fn read() -> Self {
        fs::read_to_string("/proc/self/stat").ok().and_then(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the program may hold spaces and brackets: fields are counted from its last bracket.
        let (_, rest) = text.rsplit_once(") ")?;
        let mut fields = rest.split(' ').skip(11).map(str::parse);
        Some(Self { user: fields.next()?.ok()?, system: fields.next()?.ok()? })
    }

    /// The user share of the ticks since `earlier`, 0 to 1.
    pub(crate) fn user_share_since(self, earlier: Self) -> f64 {
        let user = self.user.saturating_sub(earlier.user) as f64;
        let system = self.system.saturating_sub(earlier.system) as f64;
        if user + system > 0.0 { user / (user + system) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn reads_past_a_name_with_brackets() {
        let text = "7 (a) b) R 1 7 7 0 -1 4194304 100 0 0 0 12 34 0 0 20 0 1 0 5 0 0";
        assert_eq!(Ticks::parse(text), Some(Ticks { user: 12, system: 34 }));
    }
}
