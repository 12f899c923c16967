// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What is known of the library and of a local adapter, and whether nodes answer:
 * sci_query [--adapter N] [--json] [NODE...]
 */
#include "common.h"

#include <stdio.h>

static const struct {
	const char *name;
	unsigned int subcommand;
} facts[] = {
	{ "node", SCI_Q_ADAPTER_NODEID },
	{ "configured", SCI_Q_ADAPTER_CONFIGURED },
	{ "links", SCI_Q_ADAPTER_NUMBER_OF_LINKS },
	{ "link_operational", SCI_Q_ADAPTER_LINK_OPERATIONAL },
	{ "link_width", SCI_Q_ADAPTER_LINK_WIDTH },
	{ "link_speed", SCI_Q_ADAPTER_LINK_SPEED },
	{ "bdf", SCI_Q_ADAPTER_BDF },
};

static void text(int json, const char *name, unsigned int command)
{
	char buffer[64];
	sci_query_string_t query = { buffer, sizeof(buffer) };
	sci_error_t error;

	SCIQuery(command, &query, 0, &error);
	expect("SCIQuery", error);
	printf(json ? "\"%s\": \"%s\", " : "%-18s %s\n", name, buffer);
}

static void dma(int json, unsigned int adapter)
{
	unsigned int there;
	sci_query_dma_t query = { adapter, SCI_Q_DMA_AVAILABLE, &there };
	sci_error_t error;

	SCIQuery(SCI_Q_DMA, &query, SCI_FLAG_DMA_SYSDMA, &error);
	expect("SCIQuery", error);
	printf(json ? "\"%s\": %u, " : "%-18s %u\n", "dma", there);
}

/* What nothing is known of is left out. */
static void about_adapter(int json, unsigned int adapter)
{
	size_t i;

	for (i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
		unsigned int answer;
		sci_query_adapter_t query = { adapter, 0, facts[i].subcommand, &answer };
		sci_error_t error;

		SCIQuery(SCI_Q_ADAPTER, &query, 0, &error);
		if (error == SCI_ERR_OK)
			printf(json ? "\"%s\": %u, " : "%-18s %u\n", facts[i].name, answer);
		else if (error == SCI_ERR_ILLEGAL_ADAPTERNO || error == SCI_ERR_NO_SUCH_ADAPTERNO)
			expect("SCIQuery", error);
	}
}

static void about_nodes(int json, sci_desc_t sd, unsigned int adapter, char **words)
{
	unsigned int node;
	sci_error_t error;

	if (json)
		printf("\"nodes\": {");
	for (; *words && number_read(*words, &node); words++) {
		int answers = SCIProbeNode(sd, adapter, node, 0, &error);

		if (json)
			printf("\"%u\": %s%s", node, answers ? "true" : "false", words[1] ? ", " : "");
		else
			printf("node %-13u %s\n", node,
			       answers ? "answers" : SCIGetErrorString(error));
	}
	if (json)
		printf("}");
}

int main(int argc, char **argv)
{
	struct options options;
	sci_desc_t sd;
	int at;

	at = nodes_read(&options, argc, argv, "what is known of a local adapter, and of nodes", 0);
	sd = library_open();
	if (options.json)
		printf("{");
	text(options.json, "vendor", SCI_Q_VENDORID);
	text(options.json, "api", SCI_Q_API);
	about_adapter(options.json, options.adapter);
	dma(options.json, options.adapter);
	about_nodes(options.json, sd, options.adapter, argv + at);
	if (options.json)
		printf("}\n");
	library_close(sd);
	return 0;
}
