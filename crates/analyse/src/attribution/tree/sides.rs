//! CPU time of a request, and how it divides between the program and the kernel.
//!
//! Of all of it the clocks are exact. How it divides they tell by their ticks, a hundred a second of a busy CPU: after ten seconds that is right
//! to within one or two per cent of all, which may be half of a small gap. Samples of a profile tell the same, and there are more of
//! them; both are weighed by how exact they are.

use model::record::{PassKind, Profile, Window};

use super::Samples;
use super::drawn::error;
use crate::facts::Facts;
use crate::facts::metric::per_request;
use crate::facts::observed::sampled;
use crate::facts::passes::{PassFindings, used};
use crate::facts::sheet::by_block;

/// User and system time of all that an arm used.
const SIDES: [fn(&Window) -> u64; 2] =
    [|window| window.target.cpu.user_ns, |window| window.target.cpu.system_ns];

/// Both arms' samples, with errors that make that of the difference: what a block has in common for both arms makes none.
pub(super) fn paired<'a>(facts: &Facts<'a>, name: &str, mut both: [Samples<'a>; 2]) -> [Samples<'a>; 2] {
    let sheet = &facts.sheet;
    for (side, count) in SIDES.into_iter().enumerate() {
        let of = |name: &str| sheet.figures(name, sheet.main, |window| per_request(window, count(window)));
        let pairs = by_block(&of(sheet.baseline()), &of(name));
        let changes: Vec<f64> = pairs.into_iter().map(|(_, [below, figure])| figure - below).collect();
        let apart = both[0].cpu_se_ns[side].hypot(both[1].cpu_se_ns[side]);
        let Some(spread) = stats::descriptive::sd(&changes).filter(|_| apart > 0.0) else { continue };
        let smaller = (spread / (changes.len() as f64).sqrt() / apart).min(1.0);
        both.iter_mut().for_each(|arm| arm.cpu_se_ns[side] *= smaller);
    }
    both
}

pub(super) fn samples<'a>(facts: &Facts<'a>, name: &str) -> Option<Samples<'a>> {
    let sheet = &facts.sheet;
    let cpu = facts.arm(name)?.cpu_ns_per_request?;
    let pass = used(&facts.passes, name, PassKind::Sampling);
    let profiles = if pass.is_some() { sampled(sheet.run, name) } else { Vec::new() };
    let error = |count: fn(&Window) -> u64| {
        let rounds = sheet.figures(name, sheet.main, |window| per_request(window, count(window)));
        let rounds: Vec<f64> = rounds.into_iter().map(|(_, figure)| figure).collect();
        stats::descriptive::sd(&rounds).unwrap_or(0.0) / (rounds.len().max(1) as f64).sqrt()
    };
    Some(Samples {
        profiles,
        cpu_ns: [cpu.user, (cpu.total - cpu.user).max(0.0)],
        cpu_se_ns: SIDES.map(error),
        divides: pass.map_or(1.0, PassFindings::divides),
    })
}

/// Both with the program's share by the clocks and by the samples together. Nothing changes where the kernel was not sampled, or
/// samples do not stand for all of the time.
pub(super) fn pooled(both: [Samples<'_>; 2]) -> [Samples<'_>; 2] {
    let stands = |arm: &Samples| arm.divides >= 1.0 && arm.profiles.iter().all(|profile| profile.kernel);
    if both.iter().all(stands) { both.map(by_samples_too) } else { both }
}

fn by_samples_too(samples: Samples<'_>) -> Samples<'_> {
    let whole_ns: f64 = samples.cpu_ns.iter().sum();
    let counted = samples.profiles.iter().map(|profile| counted(profile));
    let (counts, wholes): (Vec<f64>, Vec<f64>) = counted.unzip();
    let all: f64 = wholes.iter().sum();
    // What one side has by chance of the ticks the other has not: the smaller error of both is that of the division alone.
    let by_ticks_ns = samples.cpu_se_ns[0].min(samples.cpu_se_ns[1]);
    if all <= 0.0 || by_ticks_ns <= 0.0 || whole_ns <= 0.0 {
        return samples;
    }
    let (ticks, drawn) = ((by_ticks_ns / whole_ns).powi(2), error(&counts, &wholes, 1.0).powi(2));
    let weight = ticks / (ticks + drawn);
    let share = (1.0 - weight) * samples.cpu_ns[0] / whole_ns + weight * counts.iter().sum::<f64>() / all;
    let divided_se_ns = whole_ns * (ticks * drawn / (ticks + drawn)).sqrt();
    let of_whole = |se_ns: f64| (se_ns.powi(2) - by_ticks_ns.powi(2)).max(0.0).sqrt();
    let cpu_se_ns = samples.cpu_se_ns.map(|se_ns| of_whole(se_ns).hypot(divided_se_ns));
    Samples { cpu_ns: [share * whole_ns, (1.0 - share) * whole_ns], cpu_se_ns, ..samples }
}

/// User and system time of so much CPU time, as the samples of one profile divide it.
pub(super) fn by_samples(profile: &Profile, whole_ns: f64) -> [f64; 2] {
    let (own, all) = counted(profile);
    let user_ns = whole_ns * own / all.max(1.0);
    [user_ns, whole_ns - user_ns]
}

/// Samples of a profile in the program itself, and all of them.
fn counted(profile: &Profile) -> (f64, f64) {
    let (mut own, mut all) = (0, 0);
    for stack in &profile.stacks {
        all += stack.samples;
        own += if profile.frames_of(stack).any(|frame| frame.kernel) { 0 } else { stack.samples };
    }
    (own as f64, all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::tree::tests::profile;

    #[test]
    fn how_cpu_time_divides_is_told_by_ticks_and_samples_together() {
        let drawn = profile(&[("main;serve", 300), ("main;serve|__x64_sys_write", 700)]);
        let samples = |user_ns: f64, se_ns: f64| Samples {
            profiles: vec![&drawn],
            cpu_ns: [user_ns, 1000.0 - user_ns],
            cpu_se_ns: [se_ns, se_ns],
            divides: 1.0,
        };
        // As exact as the samples are: half way between both, and more exact than either.
        let by_chance = (0.3_f64 * 0.7 / 1000.0).sqrt() * 1000.0;
        let [one, exact] = pooled([samples(200.0, by_chance), samples(200.0, 0.001)]);
        assert!(
            (one.cpu_ns[0] - 250.0).abs() < 0.5 && one.cpu_se_ns[0] < 0.8 * by_chance,
            "{:?}",
            one.cpu_ns
        );
        assert!((exact.cpu_ns[0] - 200.0).abs() < 0.01, "{:?}", exact.cpu_ns);
        assert!((one.cpu_ns.iter().sum::<f64>() - 1000.0).abs() < 1e-6);
        // Samples that do not stand for all of the time say nothing of how it divides, in neither arm.
        let part = Samples { divides: 0.6, ..samples(200.0, by_chance) };
        let [same, _] = pooled([samples(200.0, by_chance), part]);
        assert_eq!(same.cpu_ns, [200.0, 800.0]);
    }
}
