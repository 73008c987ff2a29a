//! A comparison as JUnit writes tests. Source: github.com/testmoapp/junitxml, the format that CI systems read.

use std::io;

use analyse::{Comparison, FailIfFindings, FailIfOutcome, Findings, Verdict};
use quick_xml::Writer;

use crate::compare::gate_text;
use crate::direction::figures_of;
use crate::screen::printable;
use crate::words::names::outcome_words;

/// Name of the one suite.
const SUITE: &str = "whyslow compare";

/// What became of a test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Passed,
    Failure,
    Error,
    Skipped,
}

impl Kind {
    /// The element that says so; a test that passed has none.
    fn element(self) -> Option<&'static str> {
        match self {
            Self::Passed => None,
            Self::Failure => Some("failure"),
            Self::Error => Some("error"),
            Self::Skipped => Some("skipped"),
        }
    }
}

struct Case {
    class: String,
    name: String,
    kind: Kind,
    /// What kind of failure it is, in one word or two.
    what: &'static str,
    text: String,
}

pub(crate) fn render(findings: &Findings) -> String {
    let metrics = findings.comparisons.iter().filter(|row| row.primary).map(|row| metric(findings, row));
    let cases: Vec<Case> = metrics.chain(findings.fail_if.iter().map(condition)).collect();
    let mut bytes = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_vec();
    let mut xml = Writer::new_with_indent(&mut bytes, b' ', 2);
    suites(&mut xml, findings, &cases).expect("a vector takes all that is written");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("what is written are strings")
}

fn suites(xml: &mut Writer<&mut Vec<u8>>, findings: &Findings, cases: &[Case]) -> io::Result<()> {
    let count = |kind: Kind| cases.iter().filter(|case| case.kind == kind).count().to_string();
    let counts = [
        ("tests", cases.len().to_string()),
        ("failures", count(Kind::Failure)),
        ("errors", count(Kind::Error)),
        ("skipped", count(Kind::Skipped)),
        ("time", format!("{:.3}", findings.took_ns as f64 / 1e9)),
    ];
    let counts = || counts.iter().map(|(name, value)| (*name, value.as_str()));
    xml.create_element("testsuites").with_attributes(counts()).write_inner_content(|xml| {
        let suite = xml.create_element("testsuite").with_attribute(("name", SUITE)).with_attributes(counts());
        suite.write_inner_content(|xml| {
            properties(xml, findings)?;
            cases.iter().try_for_each(|case| case.write(xml))
        })?;
        Ok(())
    })?;
    Ok(())
}

fn properties(xml: &mut Writer<&mut Vec<u8>>, findings: &Findings) -> io::Result<()> {
    let known = [
        ("run_id", Some(findings.run_id.clone())),
        ("baseline", Some(findings.baseline.clone())),
        ("workload", Some(findings.workload.clone())),
        ("host", Some(crate::compare::host(&findings.host))),
        ("partial", findings.partial.clone()),
    ];
    xml.create_element("properties").write_inner_content(|xml| {
        for (name, value) in known {
            let Some(value) = value else { continue };
            let attributes = [("name", name), ("value", &printable(&value))];
            xml.create_element("property").with_attributes(attributes).write_empty()?;
        }
        Ok(())
    })?;
    Ok(())
}

impl Case {
    fn write(&self, xml: &mut Writer<&mut Vec<u8>>) -> io::Result<()> {
        let (class, name, text) = (printable(&self.class), printable(&self.name), printable(&self.text));
        let case = xml.create_element("testcase").with_attributes([("classname", &*class), ("name", &*name)]);
        let message = ("message", text.as_str());
        case.write_inner_content(|xml| {
            match self.kind.element() {
                None => xml
                    .create_element("system-out")
                    .write_text_content(quick_xml::events::BytesText::new(&text)),
                // What was skipped has no type in the format.
                Some("skipped") => xml.create_element("skipped").with_attribute(message).write_empty(),
                Some(element) => xml
                    .create_element(element)
                    .with_attribute(message)
                    .with_attribute(("type", self.what))
                    .write_empty(),
            }?;
            Ok(())
        })?;
        Ok(())
    }
}

fn metric(findings: &Findings, row: &Comparison) -> Case {
    let case = |kind, text| Case {
        class: row.arm.clone(),
        name: format!("{} against {}", row.metric.label(), row.baseline),
        kind,
        what: row.verdict.word(),
        text,
    };
    let failed = findings
        .arms
        .iter()
        .find(|arm| arm.error.is_some() && [&row.arm, &row.baseline].contains(&&arm.name));
    if let Some(error) = failed.and_then(|arm| Some(format!("{}: {}", arm.name, arm.error.as_ref()?))) {
        return Case { what: "failed", ..case(Kind::Error, error) };
    }
    let kind = match row.verdict {
        Verdict::Faster | Verdict::Equal => Kind::Passed,
        Verdict::Slower => Kind::Failure,
        Verdict::Inconclusive | Verdict::Invalid => Kind::Skipped,
    };
    case(kind, verdict_words(findings, row))
}

/// The verdict with its figures; where a gate voids it, what that gate saw.
fn verdict_words(findings: &Findings, row: &Comparison) -> String {
    let ratio = match figures_of(row) {
        [Some(ratio), Some(interval)] => format!("{ratio} {interval} times"),
        _ => "no ratio".to_owned(),
    };
    let gate =
        row.void_by.first().and_then(|id| findings.gates.iter().find(|gate| gate.id == *id && !gate.ok));
    let gate = gate.map_or_else(String::new, |gate| format!("; gate {}", gate_text(gate)));
    format!("{}: {ratio} at {}, {} blocks{gate}", row.verdict.word(), row.condition, row.blocks)
}

fn condition(one: &FailIfFindings) -> Case {
    let kind = match one.outcome {
        FailIfOutcome::Holds => Kind::Failure,
        FailIfOutcome::DoesNotHold => Kind::Passed,
        FailIfOutcome::NotMeasured => Kind::Error,
        FailIfOutcome::Undecided | FailIfOutcome::Void => Kind::Skipped,
    };
    Case {
        class: one.arm.clone(),
        name: format!("--fail-if '{}'", one.condition),
        kind,
        what: "fail-if",
        text: format!("{}: {}", outcome_words(one.outcome), one.text),
    }
}
