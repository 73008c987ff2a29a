/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A title over what follows.
    Heading(String),
    /// The arm that the blocks after it are about, under the heading that they share.
    Arm {
        /// Its name.
        arm: String,
        /// What stands over them.
        title: String,
    },
    /// A sentence or more.
    Paragraph(String),
    /// A command as it can be pasted into a shell.
    Command(String),
    /// Lines that are laid out by themselves, in columns.
    Screen(Vec<String>),
    /// One point a line.
    List(Vec<String>),
    /// A header and rows of as many cells; the first column is text, the others are figures.
    Table {
        /// Column titles.
        header: Vec<String>,
        /// Cells.
        rows: Vec<Vec<String>>,
    },
}

/// What a page says, in the order in which it says it.
pub type Document = Vec<Block>;

impl Block {
    /// A table from what is at hand.
    pub(crate) fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> Self {
        Self::Table {
            header: header.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: rows.into_iter().map(Vec::from).collect(),
        }
    }
}
