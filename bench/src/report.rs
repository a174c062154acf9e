//! The table, and the same as JSON.

use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

use crate::args::Args;
use crate::row::Row;
use crate::spread::Spread;

const NOTHING: &str = "–";
const HEADER: [&str; 6] = ["work", "bare", "Lockkeeper", "ratio (range)", "mark", "reached"];

pub(crate) fn print(rows: &[Row], args: &Args) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(rows)?);
        return Ok(());
    }
    println!("{}", table(rows));
    for (number, note) in notes(rows) {
        println!("({number}) {note}");
    }
    println!(
        "Medians of {} turns of {:?} per arm, in turns; ratios are taken turn by turn. Contests: as they say.",
        args.turns,
        args.turn()
    );
    Ok(())
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(HEADER);
    let mut number = 0;
    for row in rows {
        number += usize::from(row.note.is_some());
        table.add_row(cells(row, row.note.as_ref().map(|_| number)));
    }
    table
}

fn notes(rows: &[Row]) -> impl Iterator<Item = (usize, &String)> {
    rows.iter().filter_map(|row| row.note.as_ref()).enumerate().map(|(index, note)| (index + 1, note))
}

fn cells(row: &Row, note: Option<usize>) -> [String; 6] {
    let nothing = || NOTHING.to_owned();
    let figure = |spread: Option<Spread>| spread.map_or_else(nothing, |spread| row.unit.show(spread.median));
    [
        note.map_or_else(|| row.work.clone(), |number| format!("{} ({number})", row.work)),
        figure(row.bare),
        figure(row.lockkeeper),
        row.ratio.map_or_else(nothing, ratio),
        row.mark.map_or_else(|| "stated".to_owned(), |mark| mark.show(row.unit)),
        reached(row).to_owned(),
    ]
}

fn ratio(ratio: Spread) -> String {
    if ratio.has_range() {
        format!("{:.3} ({:.2} to {:.2})", ratio.median, ratio.least, ratio.most)
    } else {
        format!("{:.3}", ratio.median)
    }
}

fn reached(row: &Row) -> &'static str {
    match (row.mark, row.reached) {
        (None, _) => NOTHING,
        (Some(_), Some(true)) => "yes",
        (Some(_), Some(false)) => "NO",
        (Some(_), None) => "not measured",
    }
}
