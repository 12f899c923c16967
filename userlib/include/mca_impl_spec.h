/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mca_impl_spec.h - what this implementation defines for mca.h, which includes it
 */
#ifndef MCA_IMPL_SPEC_H
#define MCA_IMPL_SPEC_H

/* The handle of a request. None is 0. */
typedef unsigned int mca_request_t;

/* Alignment that programs may give buffers; none is needed. */
#ifdef __GNUC__
#define MCA_DECL_ALIGNED __attribute__((aligned(32)))
#else
#define MCA_DECL_ALIGNED
#endif

#endif
