// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plots of what was measured, as SVG: latencies and bandwidths by the size of messages, a line for
//! each operation, on logarithmic axes.

use plotters::prelude::*;
use std::{error::Error, ops::Range};

/// Width and height of a chart, in pixels.
const CHART: (u32, u32) = (800, 480);
/// Colours that people tell from each other, also those who do not see red or green.
const COLOURS: [RGBColor; 3] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
];

/// A line of a chart.
#[derive(Debug)]
struct Series {
    name: &'static str,
    /// Sizes in bytes, and what was measured with them.
    points: Vec<(f64, f64)>,
}

/// Values by the size of messages.
#[derive(Debug)]
pub struct Chart {
    title: &'static str,
    unit: &'static str,
    series: Vec<Series>,
}

impl Chart {
    /// A chart without lines, of values in a unit.
    pub fn new(title: &'static str, unit: &'static str) -> Self {
        Chart {
            title,
            unit,
            series: Vec::new(),
        }
    }

    /// Add a value to the line of that name.
    pub fn add(&mut self, name: &'static str, bytes: u32, value: f64) {
        let point = (bytes.into(), value);
        match self.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => self.series.push(Series {
                name,
                points: vec![point],
            }),
        }
    }

    /// The smallest and the largest of some coordinates, with a margin that makes a range of a
    /// single one too.
    fn range(&self, coordinate: impl Fn(&(f64, f64)) -> f64) -> Range<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let (low, high) = points
            .map(coordinate)
            .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        low / 1.5..high * 1.5
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, plotters::coord::Shift>) -> Drawn<B> {
        let sizes = self.range(|(bytes, _)| *bytes);
        let values = self.range(|(_, value)| *value);
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(70)
            .build_cartesian_2d(sizes.log_scale(), values.log_scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("bytes").y_desc(self.unit).draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let points = || series.points.iter().copied();
            chart
                .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
                .label(series.name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
                });
            chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        let mut names = chart.configure_series_labels();
        names.background_style(WHITE.mix(0.8)).border_style(BLACK);
        names.draw()
    }
}

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Draw charts below each other; those without a line are left out.
///
/// # Errors
/// Those of the library that draws.
pub fn draw(charts: &[Chart]) -> Result<String, Box<dyn Error + Send + Sync>> {
    let charts: Vec<&Chart> = charts.iter().filter(|c| !c.series.is_empty()).collect();
    let (width, height) = CHART;
    let mut svg = String::new();
    {
        let all = SVGBackend::with_string(&mut svg, (width, height * charts.len() as u32));
        let all = all.into_drawing_area();
        all.fill(&WHITE)?;
        for (chart, area) in charts.iter().zip(all.split_evenly((charts.len(), 1))) {
            chart.draw(&area)?;
        }
        all.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "http://www.w3.org/2000/svg";

    /// How many points the drawing has.
    fn points(svg: &str) -> usize {
        let document = roxmltree::Document::parse(svg).unwrap();
        let nodes = document.descendants();
        nodes.filter(|n| n.has_tag_name((SVG, "circle"))).count()
    }

    #[test]
    fn a_single_value_has_axes_around_it() {
        let mut chart = Chart::new("latency", "us");
        chart.add("send", 8, 1.0);
        assert_eq!(points(&draw(&[chart]).unwrap()), 1);
    }

    #[test]
    fn a_chart_without_lines_is_left_out() {
        let mut chart = Chart::new("latency", "us");
        chart.add("send", 8, 1.0);
        let svg = draw(&[chart, Chart::new("bandwidth", "MB/s")]).unwrap();
        assert!(svg.contains("latency") && !svg.contains("bandwidth"));
    }
}
