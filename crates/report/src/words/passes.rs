//! What is said of watching a server closely: how much that slowed it, and whether what was seen is used.

use analyse::{PassFault, PassFindings, PassSays};
use model::record::PassKind;
use model::units::percent;

/// One kind of watching of one arm.
pub(super) fn sentence(pass: &PassFindings, says: &PassSays) -> String {
    let verdict = says.fault.map_or_else(|| "used".to_owned(), |fault| format!("not used: {}", why(fault)));
    let arm = &pass.arm;
    let turned = |other: &String| format!("; it turns the order of {other} and {arm} around");
    let turned: String = says.turned.iter().map(turned).collect();
    if pass.kind == PassKind::Tracing {
        // It was asked for so few: nobody knows how many it could have answered.
        return format!("tracing {arm} at {:.0} requests/s; {verdict}{turned}", pass.rate_per_s);
    }
    let counted = match says.counted_share {
        share if share < 1.0 => format!(", {} of the system calls counted", percent(share)),
        _ => String::new(),
    };
    let cpu = pass.slowdown.map_or_else(String::new, |ratio| format!(" (x{ratio:.2} CPU per request)"));
    let ratio = pass.rate_slowdown;
    let slowed = match ratio {
        ratio if ratio > 0.0 && ratio < 0.995 => {
            format!("{arm} answered {:.2} times faster during {}", 1.0 / ratio, pass.kind.word())
        }
        _ => format!("{} slowed {arm} x{ratio:.2}", pass.kind.word()),
    };
    format!("{slowed}{cpu}{counted}; {verdict}{turned}")
}

fn why(fault: PassFault) -> String {
    match fault {
        PassFault::NothingSeen => "nothing was seen".to_owned(),
        PassFault::FewSamples(share) => format!(
            "its samples stand for {} of the CPU time: threads that live for a millisecond or less are not seen",
            percent(share)
        ),
        PassFault::LostSamples(share) => format!(
            "{:.0} % of its samples were lost: this machine was too busy to read them in time",
            share * 100.0
        ),
        PassFault::AnsweredSlower(ratio) if ratio > 0.0 && ratio < 1.0 => {
            format!("it answered {:.2} times faster", 1.0 / ratio)
        }
        PassFault::AnsweredSlower(ratio) => format!("it answered {ratio:.2} times slower"),
        PassFault::CostlierRequests(ratio) => format!("a request took {ratio:.2} times the CPU"),
        PassFault::Switches([from, to]) => {
            format!("context switches went from {from:.2} to {to:.2} a request")
        }
        PassFault::UserTime([from, to]) => {
            format!("user time per request in ns went from {from:.3} to {to:.3}")
        }
        PassFault::UserToSystem([from, to]) => {
            format!("the ratio of user to system time went from {from:.3} to {to:.3}")
        }
    }
}
