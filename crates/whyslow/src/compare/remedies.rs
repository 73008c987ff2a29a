//! What takes a cause away without touching the program: one row for each change that is known.

use model::job::Reuse;
use model::plan::{Arm, ArmSource, CauseId, Circumstances, Intervention, Plan};
use model::record::{Frame, Run};

use crate::catalogue::Catalogue;

/// What has to be found or built before a remedy can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Library {
    /// A shared library of the system: its file, and the package that brings it.
    System(&'static str, &'static str),
    /// Our own, built when it is needed; what it is to do.
    Shim(&'static str),
}

/// How a remedy changes an arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A library is loaded first.
    Preload(Library),
    /// A variable of the environment.
    Env(&'static str, &'static str),
    /// Connections stay open.
    KeepAlive,
    /// One request in flight on each connection.
    DepthOne,
    /// Answers without bodies: HEAD in the place of GET.
    NoBody,
    /// One worker.
    OneWorker,
    /// One CPU.
    OneCpu,
    /// A variant that the arm's target declares for it, of arms that have one.
    Variant(String),
}

/// A change, and the causes that it takes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remedy {
    pub(super) intervention: Intervention,
    pub(super) change: Change,
}

const ALLOCATION: &[CauseId] = &[CauseId::Allocation];
const GC: &[CauseId] = &[CauseId::Gc, CauseId::Allocation];
/// All that a connection of its own for each request brings.
const CONNECTING: &[CauseId] = &[CauseId::AcceptQueue, CauseId::ListenBacklog];

/// Name, words after "with", causes, whether no effect rules them out, the change; the likelier first. What a shim changes
/// are calls made through the C library: where nothing changes, the server may make them by itself.
type Row = (&'static str, &'static str, &'static [CauseId], bool, Change);

const ROWS: [Row; 14] = [
    (
        "nodelay",
        "TCP_NODELAY forced",
        &[CauseId::DelayedAck],
        false,
        Change::Preload(Library::Shim("nodelay")),
    ),
    (
        "nosync",
        "no write forced to the disk",
        &[CauseId::SyncWrites],
        false,
        Change::Preload(Library::Shim("nosync")),
    ),
    (
        "nosleep",
        "sleeps that take no time",
        &[CauseId::Sleep],
        false,
        Change::Preload(Library::Shim("nosleep")),
    ),
    ("keepalive", "connections kept open", CONNECTING, true, Change::KeepAlive),
    ("depth1", "one request in flight a connection", &[CauseId::SmallWrites], false, Change::DepthOne),
    ("nobody", "answers without bodies", &[CauseId::Copying], false, Change::NoBody),
    ("oneworker", "one worker", &[CauseId::LockContention], false, Change::OneWorker),
    (
        "onecpu",
        "one CPU",
        &[CauseId::ThreadHandoff, CauseId::ContextSwitches, CauseId::LockContention],
        false,
        Change::OneCpu,
    ),
    (
        "jit",
        "the just-in-time compiler",
        &[CauseId::Interpreter],
        false,
        Change::Env("_JAVA_OPTIONS", "-Xmixed"),
    ),
    ("heap", "a heap of 1 GiB", GC, false, Change::Env("_JAVA_OPTIONS", "-Xms1g -Xmx1g")),
    (
        "parallelgc",
        "the parallel collector",
        GC,
        false,
        Change::Env("_JAVA_OPTIONS", "-XX:-UseSerialGC -XX:-UseG1GC -XX:+UseParallelGC"),
    ),
    ("gogc", "GOGC=800", GC, false, Change::Env("GOGC", "800")),
    (
        "jemalloc",
        "jemalloc",
        ALLOCATION,
        false,
        Change::Preload(Library::System("libjemalloc.so.2", "libjemalloc2")),
    ),
    (
        "mimalloc",
        "mimalloc",
        ALLOCATION,
        false,
        Change::Preload(Library::System("libmimalloc.so.2", "libmimalloc2.0")),
    ),
];

/// The language of an arm, as far as it matters for what can be changed from outside.
fn runs_on(arm: &Arm, catalogue: &Catalogue) -> Option<String> {
    if arm.run.first().is_some_and(|word| word.rsplit('/').next() == Some("java")) {
        return Some("java".to_owned());
    }
    let ArmSource::Target { name, .. } = &arm.source else { return None };
    let files = catalogue.files().ok()?;
    files.into_iter().find(|(_, file)| file.name == *name).map(|(_, file)| file.language)
}

/// The same by what was sampled of an arm; nothing where nothing was.
pub(super) fn seen_on(arm: &Arm, run: &Run) -> Option<&'static str> {
    let of_arm = run.diagnostics.iter().filter(|record| record.arm == arm.name);
    let profiles = of_arm.flat_map(|record| &record.passes).filter_map(|pass| pass.profile.as_ref());
    let frames: Vec<&Frame> = profiles.flat_map(|profile| &profile.frames).collect();
    let any = |is: fn(&Frame) -> bool| frames.iter().any(|frame| is(frame));
    match frames[..] {
        [] => None,
        _ if any(|frame| frame.name.starts_with("runtime.")) => Some("go"),
        _ if any(|frame| frame.module.starts_with("libjvm")) => Some("java"),
        _ => Some("native"),
    }
}

/// Everything that could take `cause` away from `arms` of `plan`, the likelier first; `seen` is what each was seen to run on.
pub(super) fn against(
    cause: CauseId,
    arms: [&Arm; 2],
    seen: [Option<&str>; 2],
    plan: &Plan,
    catalogue: &Catalogue,
) -> Vec<Remedy> {
    let declared = declared(cause, arms, catalogue);
    let rows = ROWS.iter().filter(|(_, _, causes, _, _)| causes.contains(&cause)).map(remedy);
    let language = |place: usize| runs_on(arms[place], catalogue).or(seen[place].map(str::to_owned));
    let languages = [language(0), language(1)];
    let fits = |remedy: &Remedy| fits(&remedy.change, arms, plan, &languages);
    declared.into_iter().chain(rows.filter(fits)).collect()
}

fn remedy((id, with, causes, rules_out, change): &Row) -> Remedy {
    let causes = causes.to_vec();
    let intervention =
        Intervention { id: (*id).to_owned(), with: (*with).to_owned(), causes, rules_out: *rules_out };
    Remedy { intervention, change: change.clone() }
}

/// Whether a change can have an effect on these arms: an environment that no one reads, or a depth that is one already,
/// is not worth two minutes.
fn fits(change: &Change, arms: [&Arm; 2], plan: &Plan, languages: &[Option<String>; 2]) -> bool {
    let any = |language: &str| languages.iter().flatten().any(|known| known == language);
    // Of a command that was not sampled nobody knows the language: it may be either.
    let unknown = languages.iter().any(Option::is_none);
    let native = unknown || languages.iter().flatten().any(|known| !["java", "go"].contains(&known.as_str()));
    match change {
        Change::Preload(Library::System(..)) => native,
        Change::Preload(Library::Shim(_)) => {
            !languages.iter().flatten().all(|known| known == "go") || unknown
        }
        Change::Env("GOGC", _) => any("go") || unknown,
        Change::Env(..) => any("java"),
        Change::KeepAlive => plan.workload.job.reuse != Reuse::All,
        Change::DepthOne => plan.workload.job.depth() > 1,
        Change::OneWorker => arms.iter().any(|arm| arm.run.iter().any(|word| word.contains("{workers}"))),
        Change::OneCpu => plan.placement.server.len() > 1,
        Change::NoBody => plan.workload.job.is_plain_get(),
        Change::Variant(_) => true,
    }
}

/// Variants whose targets say that they take `cause` away.
fn declared(cause: CauseId, arms: [&Arm; 2], catalogue: &Catalogue) -> Vec<Remedy> {
    let files = catalogue.files().unwrap_or_default();
    let of = |arm: &Arm| match &arm.source {
        ArmSource::Target { name, .. } => files.iter().find(|(_, file)| file.name == *name),
        _ => None,
    };
    let mut found: Vec<Remedy> = Vec::new();
    for variant in arms.iter().filter_map(|arm| of(arm)).flat_map(|(_, file)| &file.variants) {
        let id = format!("variant-{}", variant.name);
        let known = found.iter().any(|remedy| remedy.intervention.id == id);
        if known || !variant.removes.contains(&cause) {
            continue;
        }
        let intervention = Intervention {
            id,
            with: format!("the variant '{}'", variant.name),
            causes: variant.removes.clone(),
            rules_out: false,
        };
        found.push(Remedy { intervention, change: Change::Variant(variant.name.clone()) });
    }
    found
}

impl Remedy {
    /// `arm` with the change made; `library` is where its library lies, where it has one.
    pub(super) fn applied(&self, arm: &Arm, library: Option<&str>, plan: &Plan) -> Arm {
        let mut changed = Arm { name: self.intervention.arm(&arm.name), ..arm.clone() };
        let circumstances = &mut changed.circumstances;
        match &self.change {
            Change::Preload(kind) => {
                let library = library.unwrap_or_default().to_owned();
                changed.env.insert("LD_PRELOAD".to_owned(), library.clone());
                circumstances.preload = Some(library);
                if let Library::Shim(what) = kind {
                    changed.env.insert("WHYSLOW_SHIM".to_owned(), (*what).to_owned());
                }
            }
            Change::Env(name, value) => {
                changed.env.insert((*name).to_owned(), (*value).to_owned());
            }
            Change::KeepAlive => circumstances.keep_alive = Some(true),
            Change::DepthOne => circumstances.pipeline = Some(1),
            Change::NoBody => circumstances.head = Some(true),
            Change::OneWorker => circumstances.workers = Some(1),
            Change::OneCpu => {
                circumstances.cpus =
                    plan.placement.server.iter().next().map(|cpu| [cpu].into_iter().collect())
            }
            Change::Variant(variant) => {
                if let ArmSource::Target { name, .. } = &arm.source
                    && let Ok((of_variant, _)) = Catalogue::find().arm(&format!("{name}@{variant}"))
                {
                    changed =
                        Arm { name: changed.name, circumstances: Circumstances::default(), ..of_variant };
                }
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::compare::planning;

    fn plan(words: &[&str]) -> Plan {
        let cli = Cli::parse_from(["whyslow", "compare", "--seed", "1"].iter().chain(words));
        let Command::Compare(args) = cli.command else { panic!("it is a comparison") };
        planning::plan(&args, &"0-3".parse().unwrap()).unwrap()
    }

    fn ids(cause: &str, words: &[&str], seen: [Option<&str>; 2]) -> Vec<String> {
        let plan = plan(words);
        let found =
            against(cause.parse().unwrap(), [&plan.arms[0], &plan.arms[1]], seen, &plan, &Catalogue::find());
        found.into_iter().map(|remedy| remedy.intervention.id).collect()
    }

    const UNSEEN: [Option<&str>; 2] = [None; 2];
    const NATIVE: [&str; 2] = ["a=./a {port}", "b=./b {port}"];
    const JAVA: [&str; 2] = ["a=java -jar a.jar {port}", "b=/opt/jdk/bin/java -jar b.jar {port}"];

    #[test]
    fn what_can_be_taken_away_has_a_remedy_and_nothing_else_has() {
        for cause in CauseId::ALL {
            let has = ROWS.iter().any(|(_, _, causes, ..)| causes.contains(cause));
            assert_eq!(has, cause.can_be_taken_away(), "{cause}");
        }
    }

    #[test]
    fn only_what_can_have_an_effect_is_tried() {
        let with = |more: &[&'static str]| [&NATIVE[..], more].concat();
        for (cause, words, expected) in [
            ("delayed_ack", with(&[]), &["nodelay"][..]),
            ("allocation", with(&[]), &["gogc", "jemalloc", "mimalloc"]),
            ("allocation", JAVA.to_vec(), &["heap", "parallelgc"]),
            ("interpreter", JAVA.to_vec(), &["jit"]),
            ("accept_queue", with(&[]), &[]),
            ("accept_queue", with(&["--no-keep-alive"]), &["keepalive"]),
            ("small_writes", with(&[]), &[]),
            ("small_writes", with(&["--pipeline", "16"]), &["depth1"]),
            ("copying", with(&[]), &["nobody"]),
            ("lock_contention", with(&[]), &["onecpu"]),
            ("lock_contention", with(&["--server-cpus", "0"]), &[]),
            ("lock_contention", vec!["a=./a {port} {workers}", "b=./b {port}"], &["oneworker", "onecpu"]),
            ("thread_handoff", with(&[]), &["onecpu"]),
            ("thread_handoff", with(&["--server-cpus", "0"]), &[]),
            ("own_code", with(&[]), &[]),
        ] {
            assert_eq!(ids(cause, &words, UNSEEN), expected, "{cause} {words:?}");
        }
    }

    #[test]
    fn what_a_command_was_seen_to_run_on_leaves_fewer_changes() {
        for (seen, expected) in
            [("native", &["jemalloc", "mimalloc"][..]), ("go", &["gogc"]), ("java", &["heap", "parallelgc"])]
        {
            assert_eq!(ids("allocation", &NATIVE, [Some(seen); 2]), expected, "{seen}");
        }
        assert_eq!(ids("allocation", &NATIVE, [Some("native"), None]), ids("allocation", &NATIVE, UNSEEN));
    }

    #[test]
    fn a_change_is_made_to_a_copy_with_a_name_of_its_own() {
        let plan = plan(&NATIVE);
        let [arm, other] = [&plan.arms[0], &plan.arms[1]];
        let remedy = against(CauseId::DelayedAck, [arm, other], UNSEEN, &plan, &Catalogue::find()).remove(0);
        let changed = remedy.applied(arm, Some("/tmp/shim.so"), &plan);
        assert_eq!((changed.name.as_str(), &changed.run), ("a+nodelay", &arm.run));
        assert_eq!(changed.env["LD_PRELOAD"], "/tmp/shim.so");
        assert_eq!(changed.env["WHYSLOW_SHIM"], "nodelay");
        assert_eq!(changed.circumstances.preload.as_deref(), Some("/tmp/shim.so"));
        changed.validate().unwrap();
    }
}
