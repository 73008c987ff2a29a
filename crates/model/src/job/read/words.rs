//! Words of a line, and words of a shell.

/// Words between white space; a placeholder such as `{random 1 100}` is within one word.
pub(super) fn words(line: &str) -> Vec<&str> {
    let (mut words, mut begin, mut depth) = (Vec::new(), None, 0_u32);
    for (at, letter) in line.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let apart = letter.is_whitespace() && (depth == 0 || !line[at..].contains('}'));
        match (apart, begin) {
            (true, Some(from)) => {
                words.push(&line[from..at]);
                begin = None;
            }
            (false, None) => begin = Some(at),
            _ => {}
        }
    }
    words.extend(begin.map(|from| &line[from..]));
    words
}

/// What a shell makes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, without its quotes.
    Word(String),
    /// The end of a command: a line, `;`, `&`.
    End,
    /// A comment without its `#`.
    Comment(String),
}

/// Splits `text` as a shell would, each token with its line; `Err` with the line of a quote that is never closed.
///
/// Source: POSIX.1-2024, Shell Command Language, 2.2 Quoting, with 2.2.4 Dollar-Single-Quotes.
pub(super) fn shell(text: &str) -> Result<Vec<(usize, Token)>, usize> {
    Shell { letters: text.chars().peekable(), line: 1, word: None, tokens: Vec::new() }.split()
}

struct Shell<'a> {
    letters: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
    /// The word so far and the line where it began.
    word: Option<(usize, String)>,
    tokens: Vec<(usize, Token)>,
}

impl Shell<'_> {
    fn split(mut self) -> Result<Vec<(usize, Token)>, usize> {
        while let Some(letter) = self.next() {
            match letter {
                '\'' => self.single()?,
                '"' => self.double()?,
                '$' if self.letters.peek() == Some(&'\'') => self.dollar()?,
                '\\' => self.escaped(),
                '\n' | ';' | '&' => {
                    self.end_word();
                    let line = self.line - usize::from(letter == '\n');
                    self.tokens.push((line, Token::End));
                }
                '#' if self.word.is_none() => self.comment(),
                letter if letter.is_whitespace() => self.end_word(),
                letter => self.push(letter),
            }
        }
        self.end_word();
        Ok(self.tokens)
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.letters.next();
        self.line += usize::from(letter == Some('\n'));
        letter
    }

    fn push(&mut self, letter: char) {
        self.begin();
        if let Some((_, word)) = &mut self.word {
            word.push(letter);
        }
    }

    fn begin(&mut self) {
        self.word.get_or_insert((self.line, String::new()));
    }

    fn end_word(&mut self) {
        if let Some((line, word)) = self.word.take() {
            self.tokens.push((line, Token::Word(word)));
        }
    }

    fn comment(&mut self) {
        let mut text = String::new();
        while let Some(letter) = self.letters.next_if(|letter| *letter != '\n') {
            text.push(letter);
        }
        self.tokens.push((self.line, Token::Comment(text)));
    }

    fn escaped(&mut self) {
        match self.next() {
            Some('\r') if self.letters.peek() == Some(&'\n') => drop(self.next()),
            Some('\n') | None => {}
            Some(letter) => self.push(letter),
        }
    }

    fn single(&mut self) -> Result<(), usize> {
        self.begin();
        let from = self.line;
        loop {
            match self.next().ok_or(from)? {
                '\'' => return Ok(()),
                letter => self.push(letter),
            }
        }
    }

    fn double(&mut self) -> Result<(), usize> {
        self.begin();
        let from = self.line;
        loop {
            match self.next().ok_or(from)? {
                '"' => return Ok(()),
                '\\' => match self.next().ok_or(from)? {
                    '\n' => {}
                    letter @ ('"' | '\\' | '$' | '`') => self.push(letter),
                    letter => {
                        self.push('\\');
                        self.push(letter);
                    }
                },
                letter => self.push(letter),
            }
        }
    }

    /// `$'…'` with its escapes.
    fn dollar(&mut self) -> Result<(), usize> {
        self.next();
        self.begin();
        let from = self.line;
        loop {
            match self.next().ok_or(from)? {
                '\'' => return Ok(()),
                '\\' => {
                    let letter = self.next().ok_or(from)?;
                    self.dollar_escape(letter);
                }
                letter => self.push(letter),
            }
        }
    }

    fn dollar_escape(&mut self, letter: char) {
        let simple = match letter {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => return self.number(16, 2, None),
            'u' => return self.number(16, 4, None),
            'U' => return self.number(16, 8, None),
            '0'..='7' => return self.number(8, 2, Some(letter)),
            other => other,
        };
        self.push(simple);
    }

    /// A letter by its number in at most `most` more digits.
    fn number(&mut self, radix: u32, most: usize, first: Option<char>) {
        let mut digits: String = first.into_iter().collect();
        for _ in 0..most {
            digits.extend(self.letters.next_if(|letter| letter.is_digit(radix)));
        }
        let letter = u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32);
        self.push(letter.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
}
