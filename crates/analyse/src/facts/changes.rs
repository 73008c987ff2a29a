//! What changed between two revisions of one repository, by line: read from what `git diff --function-context` prints, whose
//! hunks are whole functions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a range of commits did to a place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The line is new, or another one than it was.
    Line,
    /// The line is as it was, and others of its function are not.
    Function,
    /// Nothing of its function changed: what it costs more has another reason.
    None,
}

/// Whether a line is one of the files before the change, or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

/// The changes of a range, file by file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    files: Vec<File>,
    /// Folders that the files lay in before and after, where their names tell that.
    checkouts: [Option<String>; 2],
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct File {
    /// Path in the repository, before and after; nothing where there is no such file.
    paths: [Option<String>; 2],
    hunks: Vec<Hunk>,
}

/// A whole function, or so many lines around a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Hunk {
    /// First line and number of lines, before and after.
    begin: [u32; 2],
    length: [u32; 2],
    /// Lines that are only before, and only after.
    changed: [Vec<u32>; 2],
    /// Lines that are in both.
    same: Vec<[u32; 2]>,
}

impl Hunk {
    fn holds(&self, side: Side, line: u32) -> bool {
        let at = side as usize;
        line >= self.begin[at] && line - self.begin[at] < self.length[at]
    }
}

impl Changes {
    /// Reads a diff; lines of it that are no part of one are passed over.
    pub(crate) fn parse(text: &str) -> Self {
        let mut files: Vec<File> = Vec::new();
        let mut left = [0_u32; 2];
        for line in text.lines() {
            if left != [0; 2] {
                take(line, &mut files, &mut left);
            } else if line.starts_with("diff ") {
                files.push(File::default());
            } else if let Some(file) = files.last_mut() {
                if let Some(path) = line.strip_prefix("--- ") {
                    file.paths[0] = path_of(path, "a/");
                } else if let Some(path) = line.strip_prefix("+++ ") {
                    file.paths[1] = path_of(path, "b/");
                } else if let Some(path) = line.strip_prefix("rename from ") {
                    file.paths[0] = path_of(path, "");
                } else if let Some(path) = line.strip_prefix("rename to ") {
                    file.paths[1] = path_of(path, "");
                } else if let Some(hunk) = line.strip_prefix("@@ ").and_then(header) {
                    left = hunk.length;
                    file.hunks.push(hunk);
                }
            }
        }
        Self { files, checkouts: [None, None] }
    }

    /// The same of files that lay in these folders before and after; of a side without one, any path that ends alike is a file's.
    pub(crate) fn in_checkouts(self, checkouts: [Option<String>; 2]) -> Self {
        Self { checkouts, ..self }
    }

    /// The name of a file in the checkout, and of any other file its own.
    pub(crate) fn named(&self, side: Side, file: &str) -> String {
        let folder = self.checkouts[side as usize].as_deref();
        folder.and_then(|folder| within(folder, file)).unwrap_or_else(|| file.to_owned())
    }

    /// What happened to a line of a file, which debug information may name by another folder.
    pub(crate) fn change_at(&self, side: Side, file: &str, line: u32) -> Change {
        let hunk =
            self.file(side, file).and_then(|file| file.hunks.iter().find(|hunk| hunk.holds(side, line)));
        match hunk {
            Some(hunk) if hunk.changed[side as usize].contains(&line) => Change::Line,
            Some(hunk) if hunk.changed.iter().any(|lines| !lines.is_empty()) => Change::Function,
            _ => Change::None,
        }
    }

    /// Where a line stands after the change that was there before it, its file named as [`Changes::named`] does; nothing where it is
    /// gone.
    pub(crate) fn moved(&self, name: &str, line: u32) -> Option<(String, u32)> {
        let named = self.named(Side::Before, name);
        let Some(file) = self.file(Side::Before, name) else { return Some((named, line)) };
        let after = self.checkouts[0].as_ref().and(file.paths[1].clone()).unwrap_or(named);
        self.line_after(file, line).map(|line| (after, line))
    }

    fn line_after(&self, file: &File, line: u32) -> Option<u32> {
        let mut further = 0;
        for hunk in &file.hunks {
            if hunk.holds(Side::Before, line) {
                return hunk.same.iter().find(|[before, _]| *before == line).map(|[_, after]| *after);
            }
            if hunk.begin[0] < line {
                further += i64::from(hunk.length[1]) - i64::from(hunk.length[0]);
            }
        }
        u32::try_from(i64::from(line) + further).ok()
    }

    fn file(&self, side: Side, name: &str) -> Option<&File> {
        if let Some(folder) = self.checkouts[side as usize].as_deref().filter(|_| name.starts_with('/')) {
            let name = within(folder, name)?;
            return self.files.iter().find(|file| file.paths[side as usize].as_ref() == Some(&name));
        }
        let is_end = |long: &str, end: &str| {
            long.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let path = |file: &File| file.paths[side as usize].clone().unwrap_or_default();
        let known = self.files.iter().filter(|file| !path(file).is_empty());
        // Of two that fit, `lib.rs` and `a/lib.rs`, the longer one is meant.
        let within = known.clone().filter(|file| is_end(name, &path(file)));
        let longest = within.max_by_key(|file| path(file).len());
        longest.or_else(|| {
            // Debug information may name files from a folder of the repository on.
            let mut longer = known.filter(|file| is_end(&path(file), name));
            longer.next().filter(|_| longer.next().is_none())
        })
    }
}

/// The path of a file from `folder` on; nothing where it lies elsewhere. Builds may name a file by way of another folder, as
/// `/build/../src/a.c`.
pub(crate) fn within(folder: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    let path = format!("/{}", parts.join("/"));
    let within = path.strip_prefix(folder.trim_end_matches('/'))?.strip_prefix('/')?;
    file.starts_with('/').then(|| within.to_owned())
}

/// Takes one line of a hunk.
fn take(line: &str, files: &mut [File], left: &mut [u32; 2]) {
    let Some(hunk) = files.last_mut().and_then(|file| file.hunks.last_mut()) else { return };
    let at = [0, 1].map(|side| hunk.begin[side] + hunk.length[side] - left[side]);
    match line.as_bytes().first() {
        Some(b'-') => hunk.changed[0].push(at[0]),
        Some(b'+') => hunk.changed[1].push(at[1]),
        // That the last line has no end.
        Some(b'\\') => return,
        _ => hunk.same.push(at),
    }
    let counts = match line.as_bytes().first() {
        Some(b'-') => [1, 0],
        Some(b'+') => [0, 1],
        _ => [1, 1],
    };
    left.iter_mut().zip(counts).for_each(|(left, count)| *left = left.saturating_sub(count));
}

/// `-12,5 +12,8 @@ fn name()`.
fn header(text: &str) -> Option<Hunk> {
    let mut words = text.split(' ');
    let mut range = |sign: char| {
        let range = words.next()?.strip_prefix(sign)?;
        let (begin, length) = range.split_once(',').unwrap_or((range, "1"));
        Some([begin.parse().ok()?, length.parse().ok()?])
    };
    let ([before, gone], [after, new]): ([u32; 2], [u32; 2]) = (range('-')?, range('+')?);
    Some(Hunk { begin: [before, after], length: [gone, new], ..Hunk::default() })
}

/// A path without the prefix that git puts before it; nothing where there is no file.
fn path_of(text: &str, prefix: &str) -> Option<String> {
    // A tab follows names that hold a space.
    text.trim_end_matches('\t').strip_prefix(prefix).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Change, Changes, Side};

    const DIFF: &str = "\
diff --git a/src/shop.c b/src/shop.c
index 1..2 100644
--- a/src/shop.c
+++ b/src/shop.c
@@ -3,5 +3,6 @@ static int price(int n)
 {
-    return n;
+    n += 1;
+    return look_up(n);
 }
 
 // --- the end
@@ -40 +41,0 @@ void unused(void)
-void unused(void) {}
diff --git a/src/new.c b/src/new.c
new file mode 100644
--- /dev/null
+++ b/src/new.c
@@ -0,0 +1,2 @@
+int one(void);
+int two(void);
\\ No newline at end of file
";

    #[test]
    fn a_line_is_changed_or_in_a_changed_function_or_the_same() {
        let changes = Changes::parse(DIFF);
        for (side, file, line, expected) in [
            (Side::After, "/build/src/shop.c", 4, Change::Line),
            (Side::After, "src/shop.c", 5, Change::Line),
            (Side::After, "src/shop.c", 6, Change::Function),
            (Side::Before, "src/shop.c", 4, Change::Line),
            (Side::Before, "src/shop.c", 40, Change::Line),
            (Side::After, "src/shop.c", 20, Change::None),
            (Side::After, "shop.c", 4, Change::Line),
            (Side::After, "my_src/shop.c", 4, Change::None),
            (Side::After, "lib/other.c", 4, Change::None),
            (Side::After, "src/new.c", 2, Change::Line),
            (Side::Before, "src/new.c", 2, Change::None),
        ] {
            assert_eq!(changes.change_at(side, file, line), expected, "{side:?} {file}:{line}");
        }
    }

    #[test]
    fn a_line_is_found_where_it_stands_after_the_change() {
        let changes = Changes::parse(DIFF);
        for (line, expected) in
            [(2, Some(2)), (3, Some(3)), (4, None), (5, Some(6)), (39, Some(40)), (40, None), (41, Some(41))]
        {
            let expected = expected.map(|line| ("src/shop.c".to_owned(), line));
            assert_eq!(changes.moved("src/shop.c", line), expected, "{line}");
        }
        assert_eq!(changes.moved("lib/other.c", 7), Some(("lib/other.c".to_owned(), 7)));
    }

    #[test]
    fn files_are_those_of_the_checkout_and_no_others_that_end_alike() {
        let moved =
            "diff --git a/old.c b/lib/new.c\nsimilarity index 100%\nrename from old.c\nrename to lib/new.c\n";
        let [before, after] = ["/cache/1/files", "/cache/2/files"].map(|folder| Some(folder.to_owned()));
        let changes = Changes::parse(&format!("{DIFF}{moved}")).in_checkouts([before, after]);
        for (file, named, expected) in [
            ("/cache/2/files/src/shop.c", "src/shop.c", Change::Line),
            ("/cache/2/build/../files/./src/shop.c", "src/shop.c", Change::Line),
            ("src/shop.c", "src/shop.c", Change::Line),
            ("/cache/2/files/vendor/src/shop.c", "vendor/src/shop.c", Change::None),
            ("/cache/1/files/src/shop.c", "/cache/1/files/src/shop.c", Change::None),
            ("/cache/2/files2/src/shop.c", "/cache/2/files2/src/shop.c", Change::None),
            ("/home/me/libraries/src/shop.c", "/home/me/libraries/src/shop.c", Change::None),
        ] {
            let side = Side::After;
            assert_eq!(
                (changes.change_at(side, file, 4), changes.named(side, file)),
                (expected, named.to_owned())
            );
        }
        for (file, line, expected) in [
            ("/cache/1/files/src/shop.c", 39, ("src/shop.c", 40)),
            ("/cache/1/files/lib/other.c", 39, ("lib/other.c", 39)),
            ("/cache/1/files/old.c", 39, ("lib/new.c", 39)),
            ("/usr/include/src/shop.c", 4, ("/usr/include/src/shop.c", 4)),
        ] {
            let (name, at) = expected;
            assert_eq!(changes.moved(file, line), Some((name.to_owned(), at)), "{file}");
        }
    }
}
