//! Lists as aligned columns that fit the terminal: what is least important is left out first, and one column is cut.
//!
//! Where there is no terminal nothing is left out or cut: a program reads it, or a person who scrolls.
//! Deliberately absent: lines that wrap. An id is shown whole or not at all.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{Paint, clean_line};

/// What stands between two columns.
const GAP: usize = 2;
/// A column that is cut shows at least so much, as long as there is another one that may be left out.
const CUT_MIN: usize = 24;
/// The least that is shown of the last column that is left.
const LAST_MIN: usize = 4;

pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    cut: usize,
    cut_min: usize,
    dropped_first: Vec<usize>,
}

impl Table {
    /// Without another word the last column is the one that is cut, and none is left out.
    pub fn new<const N: usize>(header: [&'static str; N]) -> Self {
        Self {
            header: header.to_vec(),
            rows: Vec::new(),
            cut: N.saturating_sub(1),
            cut_min: CUT_MIN,
            dropped_first: Vec::new(),
        }
    }

    /// The column that is cut where the line is too short.
    #[must_use]
    pub fn cuts(mut self, title: &str) -> Self {
        self.cut = self.place(title);
        self
    }

    /// What is in the column that is cut says nothing with less than so much of it: an id, above all.
    #[must_use]
    pub const fn at_least(mut self, width: usize) -> Self {
        self.cut_min = width;
        self
    }

    /// The columns that are left out where cutting does not suffice, the first of these first.
    #[must_use]
    pub fn drops<const N: usize>(mut self, titles: [&str; N]) -> Self {
        self.dropped_first = titles.iter().map(|title| self.place(title)).collect();
        self
    }

    fn place(&self, title: &str) -> usize {
        let found = self.header.iter().position(|known| *known == title);
        debug_assert!(found.is_some(), "there is no column {title}");
        found.unwrap_or_default()
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.header.len());
        self.rows.push(cells.iter().map(|cell| clean_line(cell)).collect());
    }

    /// The table, or `nothing` where there is no row.
    pub fn render(&self, paint: Paint, nothing: &str) -> String {
        if self.rows.is_empty() {
            return nothing.to_owned();
        }
        let columns = self.fitting(paint.width);
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for ((_, width), cell) in columns.iter().zip(cells) {
                let cell = shortened(cell, *width);
                text.push_str(&cell);
                text.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width()) + GAP));
            }
            text.trim_end().to_owned()
        };
        let mut lines = vec![paint.bold(&line(&mut columns.iter().map(|(column, _)| self.header[*column])))];
        lines.extend(self.rows.iter().map(|row| line(&mut columns.iter().map(|(column, _)| row[*column].as_str()))));
        lines.join("\n")
    }

    /// The columns that are shown, and how wide each is.
    fn fitting(&self, width: Option<usize>) -> Vec<(usize, usize)> {
        let natural = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].width());
            cells.chain([self.header[column].width()]).max().unwrap_or_default()
        };
        let mut columns: Vec<(usize, usize)> = (0..self.header.len()).map(|column| (column, natural(column))).collect();
        let Some(room) = width else { return columns };
        // A column without anything in it says least of all.
        let empty = (0..self.header.len()).filter(|column| self.rows.iter().all(|row| row[*column].is_empty()));
        let mut dropped = empty.chain(self.dropped_first.iter().copied());
        loop {
            let over = taken(&columns).saturating_sub(room);
            if over == 0 {
                return columns;
            }
            let least = self.cut_min.max(self.header[self.cut].width());
            let cut =
                columns.iter_mut().find(|(column, width)| *column == self.cut && width.saturating_sub(over) >= least);
            if let Some((_, width)) = cut {
                *width -= over;
                return columns;
            }
            match dropped.next() {
                Some(column) if columns.len() > 1 => columns.retain(|(shown, _)| *shown != column),
                Some(_) => {}
                None => break,
            }
        }
        // Nothing may be left out any more: what is cut is cut further, and the last column after it.
        let last = columns.last().map(|(column, _)| *column);
        for cut in [Some(self.cut), last].into_iter().flatten() {
            let over = taken(&columns).saturating_sub(room);
            if let Some((_, width)) = columns.iter_mut().find(|(column, _)| *column == cut) {
                *width = width.saturating_sub(over).max(LAST_MIN.min(*width));
            }
        }
        columns
    }
}

fn taken(columns: &[(usize, usize)]) -> usize {
    let widths: usize = columns.iter().map(|(_, width)| width).sum();
    widths + GAP * columns.len().saturating_sub(1)
}

/// The text as it is, or as much of it as there is room for, with an ellipsis.
fn shortened(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut left = room.saturating_sub(1);
    for character in text.chars() {
        let width = character.width().unwrap_or_default();
        if width > left {
            break;
        }
        left -= width;
        short.push(character);
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approvals() -> Table {
        let mut table =
            Table::new(["UNTIL", "ID", "STATE", "TOOL", "BY", "WHY"]).drops(["STATE", "UNTIL", "WHY", "BY"]);
        for (id, tool, by) in [
            ("01a1e0e4-b7eb-7829-9638-ea34f82c0c5a", "write_file@1.0.0", "local user 0"),
            ("01a1e0e4-bc46-7736-8aba-422f8310ee3d", "echo@1.0.0", "日本\u{1b}"),
        ] {
            let [until, state, why] = ["2026-11-16 20:27", "open", "write, critical, requires_approval"];
            table.row([until, id, state, tool, by, why].map(str::to_owned));
        }
        table
    }

    fn at(table: &Table, width: usize) -> String {
        let text = table.render(Paint { width: Some(width), ..Paint::PLAIN }, "");
        assert!(text.lines().all(|line| line.width() <= width), "{text}");
        text
    }

    #[test]
    fn a_list_fits_narrow_usual_and_wide_terminals() {
        insta::assert_snapshot!(at(&approvals(), 60), @r"
        ID                                    TOOL
        01a1e0e4-b7eb-7829-9638-ea34f82c0c5a  write_file@1.0.0
        01a1e0e4-bc46-7736-8aba-422f8310ee3d  echo@1.0.0
        ");
        insta::assert_snapshot!(at(&approvals(), 80), @r"
        ID                                    TOOL              BY
        01a1e0e4-b7eb-7829-9638-ea34f82c0c5a  write_file@1.0.0  local user 0
        01a1e0e4-bc46-7736-8aba-422f8310ee3d  echo@1.0.0        日本\u{1b}
        ");
        insta::assert_snapshot!(at(&approvals(), 120), @r"
        UNTIL             ID                                    STATE  TOOL              BY            WHY
        2026-11-16 20:27  01a1e0e4-b7eb-7829-9638-ea34f82c0c5a  open   write_file@1.0.0  local user 0  write, critical, require…
        2026-11-16 20:27  01a1e0e4-bc46-7736-8aba-422f8310ee3d  open   echo@1.0.0        日本\u{1b}    write, critical, require…
        ");
    }

    #[test]
    fn where_there_is_no_terminal_nothing_is_left_out() {
        let text = approvals().render(Paint::PLAIN, "");
        assert!(
            text.lines().all(|line| line.split("  ").filter(|cell| !cell.trim().is_empty()).count() == 6),
            "{text}"
        );
        assert!(!text.contains('…'), "{text}");
        assert_eq!(Table::new(["NAME"]).render(Paint::PLAIN, "no tools"), "no tools");
    }

    #[test]
    fn an_empty_column_goes_first_and_the_named_one_is_cut() {
        let mut table = Table::new(["NAME", "MODEL", "TITLE", "STATE"]).cuts("TITLE").drops(["STATE"]);
        table.row(["billing".into(), String::new(), "Answers questions about invoices".into(), "active".into()]);
        insta::assert_snapshot!(at(&table, 46), @r"
        NAME     TITLE                          STATE
        billing  Answers questions about invo…  active
        ");
        insta::assert_snapshot!(at(&table, 24), @r"
        NAME     TITLE
        billing  Answers questi…
        ");
    }

    #[test]
    fn a_terminal_too_narrow_for_anything_still_shows_something() {
        let mut table = Table::new(["ID", "TOOL"]);
        table.row(["01a1e0e4-b7eb-7829-9638-ea34f82c0c5a".into(), "write_file@1.0.0".into()]);
        let text = table.render(Paint { width: Some(20), ..Paint::PLAIN }, "");
        assert!(text.contains("01a1e0e4-b7eb-7829-9638-ea34f82c0c5a  wri…"), "{text}");
    }
}
