//! Tables of a label.

use roxmltree::Node;

use super::blocks;
use super::layout::{Face, LabelColour, LabelLayout, LabelStyle, Width};

/// Horizontal and vertical padding of a cell.
const PADDING: (f64, f64) = (13.0, 6.0);
const BORDER: f64 = 1.0;

struct Row {
    cells: Vec<Cell>,
    height: f64,
    fill: LabelColour,
}

struct Cell {
    content: LabelLayout,
    align: Align,
}

#[derive(Clone, Copy)]
enum Align {
    Left,
    Centre,
    Right,
}

/// Lays out a table with its origin in the upper left corner.
pub(super) fn lay_out(table: Node<'_, '_>, style: LabelStyle, line: f64) -> LabelLayout {
    let rows: Vec<_> =
        rows_of(table).map(|(row, number)| lay_out_row(row, number, style, line)).collect();
    let mut columns: Vec<f64> = Vec::new();
    for row in &rows {
        columns.resize(columns.len().max(row.cells.len()), 0.0);
        for (column, cell) in columns.iter_mut().zip(&row.cells) {
            *column = column.max(cell.content.width + 2.0 * PADDING.0);
        }
    }
    let mut layout = LabelLayout::default();
    if columns.is_empty() {
        return layout;
    }
    #[expect(clippy::cast_precision_loss, reason = "a label has few columns")]
    let borders = (columns.len() + 1) as f64 * BORDER;
    let width = columns.iter().sum::<f64>() + borders;
    let mut top = 0.0;
    for row in rows {
        layout.fill(0.0, top, (Width::Fixed(width), row.height + 2.0 * BORDER), 0.0, row.fill);
        layout.fill(0.0, top, (Width::Fixed(width), BORDER), 0.0, LabelColour::Border);
        let mut left = BORDER;
        for (column, cell) in columns.iter().zip(row.cells) {
            let room = column - 2.0 * PADDING.0 - cell.content.width;
            let shift = match cell.align {
                Align::Left => 0.0,
                Align::Centre => room / 2.0,
                Align::Right => room,
            };
            layout.insert(cell.content, left + PADDING.0 + shift, top + BORDER + PADDING.1);
            left += column + BORDER;
        }
        top += BORDER + row.height;
    }
    layout.fill(0.0, top, (Width::Fixed(width), BORDER), 0.0, LabelColour::Border);
    layout.height = top + BORDER;
    let mut left = 0.0;
    for column in columns.into_iter().map(Some).chain([None]) {
        layout.fill(left, 0.0, (Width::Fixed(BORDER), layout.height), 0.0, LabelColour::Border);
        left += column.map_or(0.0, |column| column + BORDER);
    }
    layout
}

/// Returns the rows of a table with their number in their section, but not the rows of a table in a cell.
fn rows_of<'a, 'input>(table: Node<'a, 'input>) -> impl Iterator<Item = (Node<'a, 'input>, usize)> {
    let is_row = |node: &Node<'_, '_>| node.has_tag_name("tr");
    let is_section =
        |node: &Node<'_, '_>| matches!(node.tag_name().name(), "thead" | "tbody" | "tfoot");
    let of_sections = table
        .children()
        .filter(is_section)
        .flat_map(move |section| section.children().filter(is_row).zip(0..));
    of_sections.chain(table.children().filter(is_row).zip(0..))
}

fn lay_out_row(row: Node<'_, '_>, number: usize, style: LabelStyle, line: f64) -> Row {
    let cells = row.children().filter(|cell| matches!(cell.tag_name().name(), "td" | "th"));
    let cells: Vec<_> = cells
        .map(|cell| {
            let heading = cell.has_tag_name("th");
            let face = if heading { Face::Semibold } else { style.face };
            let content = blocks::lay_out_part(cell, LabelStyle { face, ..style });
            Cell { content, align: align(cell, heading) }
        })
        .collect();
    let heights = cells.iter().map(|cell| cell.content.height);
    let height = heights.fold(line * style.size, f64::max) + 2.0 * PADDING.1;
    let fill = if number % 2 == 1 { LabelColour::Subtle } else { LabelColour::Canvas };
    Row { cells, height, fill }
}

fn align(cell: Node<'_, '_>, heading: bool) -> Align {
    match cell.attribute("align") {
        Some("center") => Align::Centre,
        Some("right") => Align::Right,
        Some("left") => Align::Left,
        _ if heading => Align::Centre,
        _ => Align::Left,
    }
}
