// SPDX-License-Identifier: GPL-2.0-only

//! Where the statics of a crate lie, by the symbols of the program (ELF of 64 bits).

use std::{
    ops::Range,
    sync::OnceLock, //
};

/// Type of a section with symbols.
const SHT_SYMTAB: u32 = 2;
/// Type of a symbol that is a variable.
const STT_OBJECT: u8 = 1;
const SYMBOL_SIZE: usize = 24;
const SECTION_SIZE: usize = 64;

/// A variable of the program.
struct Object {
    name: String,
    range: Range<usize>,
}

/// A piece of the file.
fn piece(file: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(at).ok()?;
    file.get(start..start.checked_add(usize::try_from(len).ok()?)?)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut value = [0; 8];
    value.get_mut(..N)?.copy_from_slice(bytes.get(at..at + N)?);
    Some(u64::from_le_bytes(value))
}

/// The name that begins at `at`.
fn name(strings: &[u8], at: u64) -> Option<String> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

/// The variables in a file, with their addresses in it.
fn objects(file: &[u8]) -> Option<Vec<Object>> {
    let sections = number::<8>(file, 0x28)?;
    let count = number::<2>(file, 0x3c)?;
    let table = piece(file, sections, count * SECTION_SIZE as u64)?;
    let section = |n: usize| table.get(n * SECTION_SIZE..(n + 1) * SECTION_SIZE);
    let content = |s: &[u8]| piece(file, number::<8>(s, 0x18)?, number::<8>(s, 0x20)?);
    let mut found = (0..count as usize).filter_map(section);
    let symbols = found.find(|s| number::<4>(s, 4) == Some(SHT_SYMTAB.into()))?;
    let strings = content(section(number::<4>(symbols, 0x28)? as usize)?)?;
    let each = content(symbols)?.chunks_exact(SYMBOL_SIZE);
    let object = |s: &[u8]| {
        let start = number::<8>(s, 8)? as usize;
        (s.get(4)? & 0xf == STT_OBJECT).then_some(())?;
        Some(Object {
            name: name(strings, number::<4>(s, 0)?)?,
            range: start..start + number::<8>(s, 16)? as usize,
        })
    };
    Some(each.filter_map(object).collect())
}

/// By which the file's addresses and the program's are told apart.
#[no_mangle]
static MP_HOST_MACHINE_MARK: u8 = 1;

/// The program's variables.
fn of_program() -> &'static [Object] {
    static OBJECTS: OnceLock<Vec<Object>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let file = std::fs::read("/proc/self/exe").expect("a program can read its file");
        let mut objects = objects(&file).expect("the program has its symbols: it is not stripped");
        let is_mark = |o: &&Object| o.name == "MP_HOST_MACHINE_MARK";
        let mark = objects.iter().find(is_mark).expect("a symbol of this file");
        let offset = (&raw const MP_HOST_MACHINE_MARK)
            .addr()
            .wrapping_sub(mark.range.start);
        for Object { range, .. } in &mut objects {
            *range = range.start.wrapping_add(offset)..range.end.wrapping_add(offset);
        }
        objects
    })
}

/// Where each variable of a crate lies.
pub fn of_crate(name: &str) -> impl Iterator<Item = Range<usize>> {
    // As both ways to mangle names have it.
    let part = format!("{}{name}", name.len());
    let objects = of_program().iter();
    let its = objects.filter(move |object| object.name.contains(&part));
    its.map(|object| object.range.clone())
}
