//! A document as Markdown.

use crate::document::Block;

pub(crate) fn render(document: &[Block]) -> String {
    let blocks: Vec<String> = document.iter().map(block).collect();
    blocks.join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(title) => format!("## {}\n", escape(title)),
        Block::Arm { title, .. } => format!("### {}\n", escape(title)),
        Block::Paragraph(words) => format!("{}\n", escape(words)),
        Block::Screen(lines) => lines.iter().map(|line| format!("    {line}\n")).collect(),
        // Indented, it is code in which nothing has a meaning, whatever is in it.
        Block::Command(command) => command.lines().map(|line| format!("    {line}\n")).collect(),
        Block::List(points) => points.iter().map(|point| format!("- {}\n", escape(point))).collect(),
        Block::Table { header, rows } => table(header, rows),
    }
}

fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|---|{}\n", "--:|".repeat(header.len() - 1));
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}{body}", line(header))
}

/// Names come from command lines: what Markdown or HTML would act on is text here.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '`' | '[' | '\\' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}
