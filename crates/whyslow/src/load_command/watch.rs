//! What is shown while a load runs: a bar with the time left, or with `--live` rate, percentiles and errors second by
//! second; nothing without a terminal.

use std::collections::VecDeque;
use std::io::{IsTerminal, Stderr, stderr};

use load::{Config, Event};
use model::units::format_ns;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Constraint, Layout};
use ratatui::widgets::{Paragraph, Sparkline};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use super::heat::Heat;
use crate::compare::progress::Progress;

/// Lines of the live view: a line of figures, the curve of the rate, responses over time, a line of totals.
const LINES: u16 = 14;
/// Of them the curve has so many; responses over time have what is left.
const CURVE_LINES: u16 = 4;
/// Seconds of the curve that are kept: more than any terminal has columns for.
const KEPT: usize = 512;

/// How a running load is shown.
pub(super) enum Watch {
    /// Not at all.
    Silent,
    /// As a bar.
    Bar(Progress),
    /// Second by second.
    Live(Box<Live>),
}

impl Watch {
    /// What suits the terminal and the flags.
    pub(super) fn new(config: &Config, live: bool) -> Self {
        if !stderr().is_terminal() {
            return Self::Silent;
        }
        if live && let Some(live) = Live::open() {
            return Self::Live(Box::new(live));
        }
        Self::Bar(Progress::new((config.warmup.max + config.window).as_secs_f64()))
    }

    /// Shows what happened.
    pub(super) fn follow(&mut self, event: &Event) {
        match self {
            Self::Silent => {}
            Self::Bar(bar) => {
                match event {
                    Event::WarmupSecond { .. } => bar.doing("warm-up"),
                    Event::Second { second, .. } => bar.doing(&format!("{} requests/s", second.requests)),
                    _ => {}
                }
                bar.tick();
            }
            Self::Live(live) => live.follow(event),
        }
    }

    /// Leaves the terminal to the result.
    pub(super) fn finish(&mut self) {
        match self {
            Self::Silent => {}
            Self::Bar(bar) => bar.finish(),
            Self::Live(live) => live.close(),
        }
    }
}

/// The live view.
pub(super) struct Live {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    figures: Figures,
}

/// What it shows.
#[derive(Debug)]
struct Figures {
    /// Requests of each second.
    seconds: VecDeque<u64>,
    /// Responses of each second of the window.
    heat: Heat,
    last: model::record::Second,
    phase: &'static str,
    errors: u64,
    requests: u64,
}

impl Live {
    /// Nothing where the terminal cannot say where its cursor is: then a bar must do.
    fn open() -> Option<Self> {
        let options = TerminalOptions { viewport: Viewport::Inline(LINES) };
        let terminal = Terminal::with_options(CrosstermBackend::new(stderr()), options).ok()?;
        Some(Self { terminal, figures: Figures::new() })
    }

    fn follow(&mut self, event: &Event) {
        if self.figures.note(event) {
            let lines = self.figures.lines();
            let (rates, heat) = (self.figures.seconds.make_contiguous(), &self.figures.heat);
            // A terminal that cannot be drawn on costs the view, not the load.
            let _ = self.terminal.draw(|frame| draw(frame, &lines, rates, heat));
        }
    }

    fn close(&mut self) {
        let _ = self.terminal.clear();
    }
}

impl Figures {
    fn new() -> Self {
        let (seconds, last) = (VecDeque::with_capacity(KEPT), model::record::Second::default());
        Self { seconds, heat: Heat::default(), last, phase: "warm-up", errors: 0, requests: 0 }
    }

    /// Takes in what happened; says whether there is something new to show.
    fn note(&mut self, event: &Event) -> bool {
        match event {
            Event::WarmupSecond { completed } => self.last.requests = *completed,
            Event::WindowStart { .. } => self.phase = "window",
            Event::Second { second, response, .. } => {
                self.heat.note(response);
                self.last = *second;
                self.requests += second.requests;
                self.errors += second.errors;
            }
            Event::Connected { .. } | Event::WindowEnd { .. } | Event::Failed => return false,
        }
        if self.seconds.len() == KEPT {
            self.seconds.pop_front();
        }
        self.seconds.push_back(self.last.requests);
        true
    }

    fn lines(&self) -> [String; 2] {
        let model::record::Second { requests, errors, p50_ns, p99_ns } = self.last;
        let [p50, p99] =
            [p50_ns, p99_ns].map(|ns| ns.map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64)));
        [
            format!("{}: {requests} requests/s   p50 {p50}   p99 {p99}   errors {errors}/s", self.phase),
            format!("{} requests, {} errors so far; Ctrl-C stops and reports", self.requests, self.errors),
        ]
    }
}

fn draw(frame: &mut Frame, lines: &[String; 2], rates: &[u64], heat: &Heat) {
    let rows =
        [Constraint::Length(1), Constraint::Length(CURVE_LINES), Constraint::Fill(1), Constraint::Length(1)];
    let [top, middle, below, bottom] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(lines[0].as_str()), top);
    let shown = rates.len().saturating_sub(usize::from(middle.width));
    frame.render_widget(Sparkline::default().data(&rates[shown..]), middle);
    let picture = heat.lines(usize::from(below.height), usize::from(below.width));
    frame.render_widget(Paragraph::new(picture.join("\n")), below);
    frame.render_widget(Paragraph::new(lines[1].as_str()), bottom);
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn rate_percentiles_and_errors_of_the_last_second_are_shown_and_the_sums() {
        let (mut figures, response) = (Figures::new(), load::latencies());
        assert!(figures.note(&Event::WarmupSecond { completed: 5 }));
        assert!(figures.lines()[0].starts_with("warm-up: 5 requests/s "), "{figures:?}");
        assert!(figures.note(&Event::WindowStart { steady: true, at_ns: 7 }));
        for (index, (requests, errors, ms)) in [(1000, 0, 1), (2000, 3, 2)].into_iter().enumerate() {
            let second = model::record::Second {
                requests,
                errors,
                p50_ns: Some(ms * 1_000_000),
                p99_ns: Some(ms * 10_000_000),
            };
            assert!(figures.note(&Event::Second { index: index as u32, second, response: &response }));
        }
        assert!(!figures.note(&Event::WindowEnd { at_ns: 8 }), "that shows nothing new");
        let [last, sums] = figures.lines();
        assert_eq!(last, "window: 2000 requests/s   p50 2.00 ms   p99 20.0 ms   errors 3/s");
        assert!(sums.starts_with("3000 requests, 3 errors so far"), "{sums}");
        assert_eq!(figures.seconds, [5, 5, 1000, 2000], "the curve");
    }

    #[test]
    fn the_newest_seconds_are_drawn_between_the_two_lines() {
        let mut terminal = Terminal::new(TestBackend::new(14, 7)).expect("a terminal in memory");
        let rates: Vec<u64> = (0..30).map(|second| if second < 25 { 0 } else { 8 }).collect();
        let lines = ["above".to_owned(), "below".to_owned()];
        let mut heat = Heat::default();
        let mut response = load::latencies();
        response.record_n(1_000_000, 9).expect("it fits");
        heat.note(&response);
        terminal.draw(|frame| draw(frame, &lines, &rates, &heat)).expect("it draws");
        let curve = ["         █████"; CURVE_LINES as usize];
        let rest = ["  724 µs █    ", "below         "];
        terminal.backend().assert_buffer_lines([&["above         "], &curve[..], &rest[..]].concat());
    }
}
