//! What is said of how responses are spread over time.

use analyse::{PeakRemark, ResponsePeak, ResponseShape};
use model::plan::CauseId;
use model::units::{format_ns, percent};

use super::names::cause_words;

/// Where responses gather, and what is remarkable about it.
pub(super) fn sentence(shape: &ResponseShape) -> String {
    let place = |peak: &ResponsePeak| format!("{} ({})", format_ns(peak.at_ns), percent(peak.share));
    let places: Vec<String> = shape.peaks.iter().map(place).collect();
    let number = match &places[..] {
        [] => "no peak".to_owned(),
        [only] => format!("one peak: {only}"),
        [first, second] => format!("two peaks: {first} and {second}"),
        [rest @ .., last] => format!("{} peaks: {} and {last}", places.len(), rest.join(", ")),
    };
    let remarks = |peak: &ResponsePeak| -> String {
        let at = format_ns(peak.at_ns);
        peak.remarks.iter().map(|what| format!("; that at {at} {}", remark(what, peak, shape))).collect()
    };
    let remarks: String = shape.peaks.iter().map(remarks).collect();
    format!("responses at {} have {number}{remarks}", shape.condition)
}

fn remark(what: &PeakRemark, peak: &ResponsePeak, shape: &ResponseShape) -> String {
    match *what {
        PeakRemark::DelayedAcks(each) => {
            format!("lies where delayed acknowledgements do ({each:.2} for each of its responses)")
        }
        PeakRemark::AsLong { cause, each_ns } => {
            format!("takes as long as its {} ({} each on average)", repeated(cause), format_ns(each_ns))
        }
        PeakRemark::InFewWindows => format!("is in {} of {} windows", peak.windows, shape.windows),
    }
}

/// What a server does again and again, each time for about as long.
const fn repeated(cause: CauseId) -> &'static str {
    match cause {
        CauseId::Gc => "pauses for memory to be collected",
        other => cause_words(other),
    }
}
