/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a provider of libfabric 1.17 needs, for bindgen. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
