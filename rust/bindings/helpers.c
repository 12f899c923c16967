// SPDX-License-Identifier: GPL-2.0-only
/*
 * Out-of-line copies of `static inline` kernel functions and macros, for the
 * Rust side: `mp_helper_foo()` appears in `mp_bindings` as `foo()`. One file
 * per subsystem, all of them in this one translation unit.
 */

#define __mp_helper __used

#include "helpers/barrier.c"
#include "helpers/cgroup.c"
#include "helpers/cpumask.c"
#include "helpers/dma_buf.c"
#include "helpers/dmaengine.c"
#include "helpers/eventfd.c"
#include "helpers/file.c"
#include "helpers/genl.c"
#include "helpers/iomem.c"
#include "helpers/iommu.c"
#include "helpers/mm.c"
#include "helpers/net.c"
#include "helpers/ntb.c"
#include "helpers/pages.c"
#include "helpers/pci.c"
#include "helpers/process.c"
#include "helpers/sched.c"
#include "helpers/sync.c"
#include "helpers/sysfs.c"
#include "helpers/time.c"
#include "helpers/user_pages.c"
#include "helpers/wait.c"
#include "helpers/workqueue.c"
