/* SPDX-License-Identifier: GPL-2.0-only */
/* What the Rust side of dma_test calls. */
#ifndef DMA_TEST_GLUE_H
#define DMA_TEST_GLUE_H

#include <linux/dmaengine.h>

void dma_test_init_device(struct dma_device *dma);
void dma_test_add_channel(struct dma_device *dma, struct dma_chan *chan);
int dma_test_copy(phys_addr_t dst, phys_addr_t src, size_t len);
int dma_test_spoil(phys_addr_t dst, size_t len);

#endif
