//! Frames on a terminal.

use std::io;
use std::thread;

use ratatui::Frame as Canvas;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Row, Table};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::frame::{AWAY, COLUMNS, Frame, Order};
use super::options::Top;
use super::sample::Sample;
use crate::client::exit::{Exit, Outcome, Stop};
use crate::client::server::Client;

/// How many events may wait to be seen.
const PENDING: usize = 64;

/// What is shown.
struct View {
    /// Whose server it is.
    title: String,
    order: Order,
    frame: Option<Frame>,
    /// Why it is not up to date.
    trouble: Option<String>,
}

/// What somebody wants.
enum Wish {
    Quit,
    Sort(isize),
    Redraw,
}

/// Shows frames until `q` is pressed.
pub async fn show(top: &Top, client: &Client) -> Outcome<Exit> {
    // Whatever is wrong with the server is said before the screen is taken.
    let first = (top.sample(client).await?, Instant::now());
    let mut terminal = ratatui::try_init().map_err(unusable)?;
    let shown = follow(top, client, first, |view| {
        terminal.draw(|canvas| draw(canvas, view)).map(|_| ())
    });
    let shown = shown.await;
    ratatui::restore();
    shown.map(|()| Exit::Done)
}

async fn follow(
    top: &Top,
    client: &Client,
    mut last: (Sample, Instant),
    mut draw: impl FnMut(&View) -> io::Result<()>,
) -> Outcome<()> {
    let mut view = View {
        title: top.options.server.clone(),
        order: top.sort,
        frame: None,
        trouble: None,
    };
    let mut wishes = wishes();
    let mut stop = signal(SignalKind::terminate()).map_err(unusable)?;
    let mut ticks = interval(top.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first comes at once, and nothing has happened by then.
    ticks.tick().await;
    loop {
        draw(&view).map_err(unusable)?;
        tokio::select! {
            _ = ticks.tick() => view.bring_up_to_date(top.sample(client).await, &mut last),
            _ = stop.recv() => return Ok(()),
            wish = wishes.recv() => match wish {
                None | Some(Wish::Quit) => return Ok(()),
                Some(Wish::Sort(by)) => view.sort(by),
                Some(Wish::Redraw) => {}
            },
        }
    }
}

impl View {
    fn bring_up_to_date(&mut self, taken: Outcome<Sample>, last: &mut (Sample, Instant)) {
        match taken {
            Ok(sample) => {
                let now = Instant::now();
                let elapsed = now.duration_since(last.1);
                let frame = Frame::between(&last.0, &sample, elapsed, self.order);
                (self.frame, self.trouble) = (Some(frame), None);
                *last = (sample, now);
            }
            // The frame stays: it is what was known last.
            Err(Stop { message, .. }) => self.trouble = Some(message),
        }
    }

    fn sort(&mut self, by: isize) {
        self.order = self.order.moved(by);
        if let Some(frame) = &mut self.frame {
            frame.sort(self.order);
        }
    }
}

/// What is typed, read by a thread of its own: reading blocks.
fn wishes() -> mpsc::Receiver<Wish> {
    let (sender, receiver) = mpsc::channel(PENDING);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if let Some(wish) = wish(&event)
                && sender.blocking_send(wish).is_err()
            {
                return;
            }
        }
    });
    receiver
}

fn wish(event: &Event) -> Option<Wish> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => pressed(*key),
        Event::Resize(..) => Some(Wish::Redraw),
        _ => None,
    }
}

fn pressed(key: KeyEvent) -> Option<Wish> {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Quit),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Quit),
        KeyCode::Right | KeyCode::Char('s') | KeyCode::Tab => Some(Wish::Sort(1)),
        KeyCode::Left => Some(Wish::Sort(-1)),
        _ => None,
    }
}

fn draw(canvas: &mut Canvas<'_>, view: &View) {
    let denied = view.frame.as_ref().map_or(0, |frame| frame.denied.len());
    let below = u16::try_from(denied).map_or(u16::MAX, |rows| rows.saturating_add(2));
    let below = if denied == 0 { 0 } else { below };
    let rooms = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(4),
        Constraint::Max(below),
        Constraint::Length(1),
    ]);
    let [head, policies, keys, foot] = rooms.areas(canvas.area());
    canvas.render_widget(
        Line::from(format!("tidegate top  {}", view.title)).bold(),
        head,
    );
    match &view.frame {
        None => canvas.render_widget(Line::from("counting"), policies),
        Some(frame) => {
            canvas.render_widget(table(frame, view.order), policies);
            canvas.render_widget(denied_table(frame), keys);
        }
    }
    let is_away = view.frame.as_ref().is_some_and(|frame| frame.is_store_away);
    let words = match &view.trouble {
        Some(trouble) => Line::from(trouble.as_str()).reversed(),
        None if is_away => Line::from(AWAY).reversed(),
        None => Line::from("q quits, arrows choose the column to sort by").dim(),
    };
    canvas.render_widget(words, foot);
}

/// So much of a long name is seen on a narrow screen: numbers are seen whole.
const SHORTEST_NAME: u16 = 12;

fn table(frame: &Frame, order: Order) -> Table<'_> {
    let sorted = order as usize;
    let titles = COLUMNS.iter().enumerate().map(|(at, title)| {
        let style = match at == sorted {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new().add_modifier(Modifier::BOLD),
        };
        Cell::from(aligned(at, (*title).to_owned())).style(style)
    });
    let row = |row: &super::frame::Row| {
        let cells = row.cells().into_iter().enumerate();
        Row::new(cells.map(|(at, cell)| Cell::from(aligned(at, cell))))
    };
    let rows = std::iter::once(row(&frame.total).bold()).chain(frame.rows.iter().map(row));
    let widths = frame.widths().into_iter().enumerate();
    let widths = widths.map(|(at, width)| match at {
        0 => Constraint::Min(width.min(SHORTEST_NAME)),
        _ => Constraint::Length(width),
    });
    Table::new(rows, widths).header(Row::new(titles))
}

/// Names stand on the left, numbers on the right.
fn aligned(at: usize, cell: String) -> Line<'static> {
    match at {
        0 => Line::from(cell),
        _ => Line::from(cell).right_aligned(),
    }
}

fn denied_table(frame: &Frame) -> Table<'_> {
    let rows = frame.denied.iter().map(|denied| {
        let count = Line::from(denied.count.to_string()).right_aligned();
        Row::new([
            count,
            Line::from(denied.policy.as_str()),
            Line::from(denied.key.as_str()),
        ])
    });
    let widths = [
        Constraint::Length(10),
        Constraint::Length(16),
        Constraint::Min(10),
    ];
    let title = "refused most (since the start)";
    Table::new(rows, widths).block(Block::new().title(title).bold())
}

fn unusable(error: io::Error) -> Stop {
    Stop::failed(format!("the terminal cannot be used: {error}; try --once"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::client::top::sample::Denied;

    fn shown(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|canvas| draw(canvas, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width.max(1)));
        let rows = rows.map(|row| {
            row.iter()
                .map(ratatui::buffer::Cell::symbol)
                .collect::<String>()
        });
        rows.map(|row| row.trim_end().to_owned() + "\n").collect()
    }

    fn view() -> View {
        let text = "tidegate_decisions_total{policy=\"chat\",outcome=\"refused\"} 30\n\
                    tidegate_leases{policy=\"jobs\"} 2\n";
        let mut after = Sample::read(text, "default");
        after.denied.push(Denied {
            policy: "chat".to_owned(),
            key: "alice".to_owned(),
            count: 30,
        });
        let second = Duration::from_secs(1);
        let frame = Frame::between(&Sample::default(), &after, second, Order::Refused);
        View {
            title: "http://here".to_owned(),
            order: Order::Refused,
            frame: Some(frame),
            trouble: None,
        }
    }

    #[test]
    fn a_screen_shows_policies_keys_and_what_is_wrong() {
        let mut view = view();
        let screen = shown(&view, 110, 20);
        let lines: Vec<_> = screen.lines().collect();
        assert!(lines[0].ends_with("http://here"), "{screen}");
        assert!(
            lines[3].starts_with("chat") && lines[3].contains(" 30 "),
            "{screen}"
        );
        assert!(lines[4].starts_with("jobs"), "{screen}");
        assert!(screen.contains("30 chat             alice"), "{screen}");
        view.sort(4);
        assert_eq!(view.order, Order::Leases);
        assert!(
            shown(&view, 110, 20)
                .lines()
                .nth(3)
                .unwrap()
                .starts_with("jobs")
        );
        view.trouble = Some("no answer".to_owned());
        assert!(shown(&view, 110, 20).contains("no answer"));
    }

    /// The numbers lost their first digits.
    #[test]
    fn a_long_name_is_cut_before_a_number_is() {
        let name = "the-policy-of-a-team-with-many-words-in-it";
        let text = format!(
            "tidegate_decisions_total{{policy=\"{name}\",outcome=\"refused\"}} 1234567\n\
             tidegate_decisions_total{{policy=\"{name}\",outcome=\"admitted\"}} 7654321\n"
        );
        let mut after = Sample::read(&text, "default");
        after.denied.clear();
        let second = Duration::from_secs(1);
        let frame = Frame::between(&Sample::default(), &after, second, Order::Refused);
        let wide = View {
            frame: Some(frame),
            ..view()
        };
        let row = |width| {
            let screen = shown(&wide, width, 20);
            let row = screen.lines().nth(3).expect("a policy").to_owned();
            let (name, numbers) = row.split_once(' ').expect("numbers");
            let numbers = numbers.split_whitespace().map(str::to_owned);
            (name.to_owned(), numbers.collect::<Vec<_>>())
        };
        let (whole, numbers) = row(160);
        assert_eq!(whole, name);
        assert!(numbers.len() > 2, "{numbers:?}");
        let (cut, same) = row(80);
        assert!(name.starts_with(&cut) && cut.len() >= 12, "{cut}");
        assert_eq!(same, numbers);
    }

    #[test]
    fn a_screen_of_any_size_can_be_drawn() {
        for size in [(0, 0), (1, 1), (5, 2), (20, 3), (300, 2)] {
            shown(&view(), size.0, size.1);
        }
    }

    #[test]
    fn the_columns_are_those_of_the_order() {
        assert_eq!(Order::P99 as usize, COLUMNS.len() - 1);
        assert_eq!(Order::P99.moved(1), Order::Policy);
        assert_eq!(Order::Policy.moved(-1), Order::P99);
    }
}
