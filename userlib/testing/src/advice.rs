// SPDX-License-Identifier: MIT OR Apache-2.0

//! Texts of errors.

/// Check that a text says what is wrong, and behind a colon or a semicolon what to do about it or
/// where to look.
///
/// # Panics
/// If it does not.
pub fn assert_advises(text: impl ToString) {
    let text = text.to_string();
    let advice = text.split_once([':', ';']).map_or("", |(_, advice)| advice);
    assert!(advice.split_whitespace().count() >= 2, "no advice: {text}");
}
