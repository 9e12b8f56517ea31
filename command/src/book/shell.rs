//! Lines of a shell, as words: quotes, comments, continued lines, and what parts commands.

/// The commands of a script, each as its words.
pub fn commands(script: &str) -> Vec<Vec<String>> {
    let mut reader = Reader::default();
    let mut characters = script.chars().peekable();
    while let Some(character) = characters.next() {
        match (reader.quote, character) {
            (Some(quote), _) if character == quote => reader.quote = None,
            (Some(_), _) => reader.push(character),
            (None, '\'' | '"') => reader.open(character),
            (None, '\\') => match characters.next() {
                Some('\n') | None => {}
                Some(escaped) => reader.push(escaped),
            },
            (None, '#') if reader.word.is_none() => {
                while characters.next_if(|next| *next != '\n').is_some() {}
            }
            (None, '\n' | ';' | '|' | '&' | '(' | ')') => reader.end_command(),
            (None, ' ' | '\t') => reader.end_word(),
            (None, _) => reader.push(character),
        }
    }
    reader.end_command();
    reader.commands
}

#[derive(Default)]
struct Reader {
    quote: Option<char>,
    word: Option<String>,
    words: Vec<String>,
    commands: Vec<Vec<String>>,
}

impl Reader {
    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    fn open(&mut self, quote: char) {
        self.quote = Some(quote);
        self.word.get_or_insert_default();
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    /// Without what is assigned before it, and where its output goes.
    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        let is_assigned =
            |word: &String| word.split_once('=').is_some_and(|(name, _)| is_name(name));
        let words = words.into_iter().skip_while(is_assigned);
        let words = words.take_while(|word| !word.contains(['<', '>']) || word.contains(' '));
        let words: Vec<_> = words.collect();
        if !words.is_empty() {
            self.commands.push(words);
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[test]
fn a_script_is_read_as_its_commands() {
    let script = "A=1 b 'c d' \"e\" # f\nlease=$(g -q) && h \\\n  i | j > k\n";
    let read = commands(script);
    let shown: Vec<_> = read.iter().map(|words| words.join(",")).collect();
    assert_eq!(shown, ["b,c d,e", "g,-q", "h,i", "j"]);
}
