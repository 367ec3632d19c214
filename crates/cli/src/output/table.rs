//! Lists as aligned columns. The last column takes what is left of the line and is cut there; no other is.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Row};

use super::{Paint, clean_line};

/// What stands between two columns.
const GAP: u16 = 2;

pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(header: [&'static str; N]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.header.len());
        self.rows.push(cells.iter().map(|cell| clean_line(cell)).collect());
    }

    /// Leaves the last column out where the line is too short for all of it.
    pub fn drop_last_unless_it_fits(&mut self, paint: Paint) {
        let width = |cells: &mut dyn Iterator<Item = usize>| cells.max().unwrap_or_default();
        let columns = self.header.iter().enumerate().map(|(index, title)| {
            width(&mut self.rows.iter().map(|row| row[index].chars().count()).chain([title.len()]))
        });
        let all = columns.map(|width| width + usize::from(GAP)).sum::<usize>();
        if all > usize::from(paint.width) {
            self.header.pop();
            self.rows.iter_mut().for_each(|row| drop(row.pop()));
        }
    }

    /// The table, or `nothing` where there is no row.
    pub fn render(&self, paint: Paint, nothing: &str) -> String {
        if self.rows.is_empty() {
            return nothing.to_owned();
        }
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(paint.width);
        let mut header = Row::from(self.header.clone());
        header.max_height(1);
        table.set_header(header);
        for cells in &self.rows {
            let mut row = Row::from(cells.clone());
            row.max_height(1);
            table.add_row(row);
        }
        let last = self.header.len().saturating_sub(1);
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        for index in 0..last {
            if let Some(column) = table.column_mut(index) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        let mut lines = table.lines().map(|line| line.trim_end().to_owned());
        let header = lines.next().unwrap_or_default();
        std::iter::once(paint.bold(&header)).chain(lines).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_only_the_last_is_cut() {
        let mut table = Table::new(["NAME", "CLASS", "DESCRIPTION"]);
        table.row(["send_email".into(), "write".into(), "Sends an e-mail\u{1b} to ".to_owned() + &"one ".repeat(40)]);
        table.row(["a".into(), "none".into(), String::new()]);
        let text = table.render(Paint { width: 60, ..Paint::PLAIN }, "no tools");
        insta::assert_snapshot!(text, @r"
        NAME        CLASS  DESCRIPTION
        send_email  write  Sends an e-mail\u{1b} to one one one…
        a           none
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 60));
        assert_eq!(Table::new(["NAME"]).render(Paint::PLAIN, "no tools"), "no tools");
    }
}
