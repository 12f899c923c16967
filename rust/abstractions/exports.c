// SPDX-License-Identifier: GPL-2.0-only
/* Exports the Rust symbols of mp_kernel and mp_bindings to the other modules. */

#include <linux/export.h>

#define EXPORT_SYMBOL_RUST_GPL(sym) extern int sym; EXPORT_SYMBOL_GPL(sym)

#include "exports_generated.h"
