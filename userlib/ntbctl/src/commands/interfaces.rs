// SPDX-License-Identifier: MIT OR Apache-2.0

//! `interfaces`: the local ends of links, whether or not anybody is at the far end.

use crate::{
    failure::Failure,
    model::Interface,
    netlink::Connection,
    output::{print_json, print_table},
};
use mp_table::Table;

/// What stands where there is nothing.
const NOTHING: &str = "-";

/// List the interfaces, by id.
pub fn run(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    let interfaces = super::interfaces(kernel)?;
    if json {
        return print_json(&interfaces);
    }
    let columns = [
        "id",
        "kind",
        "bridge",
        "port",
        "peer",
        "resets",
        "waits_for",
    ];
    let mut table = Table::new(columns);
    for interface in &interfaces {
        table.row([
            interface.id.to_string(),
            interface.kind.clone(),
            text(interface.bridge),
            interface.port.to_string(),
            text(interface.peer),
            interface.resets.to_string(),
            text(interface.waits_for.map(|waits| waits.name())),
        ]);
    }
    print_table(&table)
}

/// The links that do not carry frames, or only slowly: what each waits for; `None` if there is none.
pub fn waiting(interfaces: &[Interface]) -> Option<Table> {
    let mut table = Table::new([
        "interface",
        "bridge",
        "port",
        "seconds",
        "waits_for",
        "that_is",
    ]);
    let mut is_empty = true;
    for interface in interfaces {
        if let (Some(waits), Some(ms)) = (interface.waits_for, interface.waits_ms) {
            is_empty = false;
            table.row([
                interface.id.to_string(),
                text(interface.bridge),
                interface.port.to_string(),
                (ms / 1000).to_string(),
                waits.name(),
                waits.meaning().into(),
            ]);
        }
    }
    (!is_empty).then_some(table)
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or(NOTHING.into(), |value| value.to_string())
}
