//! Tables for people.

use std::io::IsTerminal;

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};

/// A table without lines, under a bold heading where standard output is a terminal. Flush with the text around it.
pub(crate) fn table<const N: usize>(
    heading: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    // A key or a holder that is broken over two lines cannot be copied; the terminal wraps long lines by itself.
    table.set_content_arrangement(ContentArrangement::Disabled);
    if !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some() {
        table.force_no_tty();
    }
    table.set_header(heading.map(|text| Cell::new(text).add_attribute(Attribute::Bold)));
    for row in rows {
        table.add_row(row);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 1));
    }
    table.trim_fmt()
}
