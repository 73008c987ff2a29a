//! Profiles as a page carries them. Arms run the same kernel and the same libraries, and their stacks share most of
//! their outer functions: every function is written once for all arms, and of a stack only what the one before it had
//! not. Four arms with deep stacks would not fit into two megabytes otherwise.

use std::collections::BTreeMap;

use analyse::ArmStacks;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Profiles of all arms of a run.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Packed {
    /// Modules, crates, packages and libraries, each once.
    names: Vec<String>,
    /// Every function that any arm ran, each once.
    functions: Vec<Function>,
    /// The arms that were sampled.
    arms: Vec<PackedArm>,
}

/// A function: its name, the places of its module and of its crate, package or library among the names, and whether it
/// ran in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
struct Function(String, u32, u32, bool);

/// Stacks of one arm.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct PackedArm {
    /// Arm.
    arm: String,
    /// Samples.
    samples: u64,
    /// What one sample stands for, in nanoseconds of each request.
    ns_per_request_of_sample: f64,
    /// Whether callers are known; without them only the innermost function of each stack can be believed.
    callers: bool,
    /// What the reader must know, one sentence each.
    notes: Vec<String>,
    /// Stacks in the order of their functions. Each: its samples; how many functions, outermost first, it shares with
    /// the stack before it; the places of its further functions, outermost first.
    stacks: Vec<Vec<u64>>,
}

/// For `serialize_with`.
pub(crate) fn serialize<S: Serializer>(profiles: &[ArmStacks], serializer: S) -> Result<S::Ok, S::Error> {
    pack(profiles).serialize(serializer)
}

fn pack(profiles: &[ArmStacks]) -> Packed {
    let mut names = Places::default();
    let mut functions = Places::default();
    let arms = profiles.iter().map(|profile| packed(profile, &mut names, &mut functions)).collect();
    Packed { names: names.values, functions: functions.values, arms }
}

fn packed(profile: &ArmStacks, names: &mut Places<String>, functions: &mut Places<Function>) -> PackedArm {
    let places: Vec<u64> = (0..profile.frames.len())
        .map(|index| functions.index_for(function(profile, index, names)).into())
        .collect();
    let place = |index: &u32| places.get(usize::try_from(*index).ok()?).copied();
    let whole =
        profile.stacks.iter().map(|stack| (stack.frames.iter().filter_map(place).collect(), stack.samples));
    PackedArm {
        arm: profile.arm.clone(),
        samples: profile.samples,
        ns_per_request_of_sample: profile.ns_per_request_of_sample,
        callers: profile.callers,
        notes: profile.notes.clone(),
        stacks: shortened(whole.collect()),
    }
}

fn function(profile: &ArmStacks, index: usize, names: &mut Places<String>) -> Function {
    let frame = &profile.frames[index];
    let package = profile.package_of.get(index).and_then(|place| profile.packages.get(*place as usize));
    let module = names.index_for(frame.module.clone());
    let package = package.map_or(module, |package| names.index_for(package.clone()));
    Function(frame.name.clone(), module, package, frame.kernel)
}

/// In order, each stack has most in common with the one before it.
fn shortened(mut stacks: Vec<(Vec<u64>, u64)>) -> Vec<Vec<u64>> {
    stacks.sort_unstable();
    let mut before: &[u64] = &[];
    let mut made = Vec::with_capacity(stacks.len());
    for (stack, samples) in &stacks {
        let shared = stack.iter().zip(before).take_while(|(a, b)| a == b).count();
        made.push([*samples, shared as u64].into_iter().chain(stack[shared..].iter().copied()).collect());
        before = stack;
    }
    made
}

/// Values in the order in which they were first met, each once.
struct Places<T> {
    values: Vec<T>,
    known: BTreeMap<T, u32>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { values: Vec::new(), known: BTreeMap::new() }
    }
}

impl<T: Ord + Clone> Places<T> {
    /// The place of `value`, a new one where it was not met before.
    fn index_for(&mut self, value: T) -> u32 {
        if let Some(place) = self.known.get(&value) {
            return *place;
        }
        let place = u32::try_from(self.values.len())
            .expect("a profile has fewer functions than addresses of 32 bits");
        self.values.push(value.clone());
        self.known.insert(value, place);
        place
    }
}

#[cfg(test)]
mod tests {
    use model::record::{Frame, Stack};

    use super::*;

    /// An arm whose functions are named by letters, with one sample more in each stack than in the one before.
    fn arm(name: &str, functions: &str, stacks: &[&[u32]]) -> ArmStacks {
        let frame = |c: char| Frame {
            name: c.to_string(),
            module: "m".to_owned(),
            kernel: c == 'k',
            ..Frame::default()
        };
        let frames: Vec<Frame> = functions.chars().map(frame).collect();
        ArmStacks {
            arm: name.to_owned(),
            samples: 6,
            ns_per_request_of_sample: 0.5,
            callers: true,
            notes: Vec::new(),
            packages: vec!["p".to_owned()],
            package_of: vec![0; frames.len()],
            frames,
            stacks: (1..)
                .zip(stacks)
                .map(|(samples, frames)| Stack { frames: frames.to_vec(), samples })
                .collect(),
        }
    }

    /// What a reader of the page makes of it: functions by name, with their samples.
    fn unpacked(packed: &Packed, arm: usize) -> Vec<(String, u64)> {
        let mut stack: Vec<u64> = Vec::new();
        let rows = packed.arms[arm].stacks.iter().map(|row| {
            stack.truncate(row[1] as usize);
            stack.extend(&row[2..]);
            (stack.iter().map(|place| packed.functions[*place as usize].0.as_str()).collect(), row[0])
        });
        let mut rows: Vec<(String, u64)> = rows.collect();
        rows.sort();
        rows
    }

    #[test]
    fn what_is_packed_comes_out_whole() {
        let first = arm("first", "abck", &[&[0, 1, 2], &[0, 1, 3], &[0]]);
        let second = arm("second", "kba", &[&[2, 1], &[2, 1, 0], &[]]);
        let packed = pack(&[first, second]);
        let rows = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
            rows.iter().map(|(stack, samples)| ((*stack).to_owned(), *samples)).collect()
        };
        assert_eq!(unpacked(&packed, 0), rows(&[("a", 3), ("abc", 1), ("abk", 2)]));
        assert_eq!(unpacked(&packed, 1), rows(&[("", 3), ("ab", 1), ("abk", 2)]));
        assert_eq!(packed.functions.len(), 4, "each once: {:?}", packed.functions);
        assert_eq!(packed.functions[3], Function("k".to_owned(), 0, 1, true));
        assert_eq!(packed.names, ["m", "p"]);
        assert_eq!(
            packed.arms[0].stacks[1],
            [1, 1, 1, 2],
            "what the stack before it has is not written again"
        );
    }
}
