// SPDX-License-Identifier: GPL-2.0
/*
 * Tells what is known of the library and of a local adapter, and whether nodes answer:
 * sci_query [--json] [ADAPTER [NODE...]]
 */
#include <sisci_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	unsigned int subcommand;
} facts[] = {
	{ "node", SCI_Q_ADAPTER_NODEID },
	{ "configured", SCI_Q_ADAPTER_CONFIGURED },
	{ "card_type", SCI_Q_ADAPTER_CARD_TYPE },
	{ "links", SCI_Q_ADAPTER_NUMBER_OF_LINKS },
	{ "link_operational", SCI_Q_ADAPTER_LINK_OPERATIONAL },
	{ "link_width", SCI_Q_ADAPTER_LINK_WIDTH },
	{ "link_speed", SCI_Q_ADAPTER_LINK_SPEED },
	{ "bdf", SCI_Q_ADAPTER_BDF },
	{ "dma_mtu", SCI_Q_ADAPTER_DMA_MTU },
	{ "mcast_max_groups", SCI_Q_ADAPTER_MCAST_MAX_GROUPS },
	{ NULL, 0 },
};

static void text(int json, const char *name, unsigned int command)
{
	char buffer[64];
	sci_query_string_t query = { buffer, sizeof(buffer) };
	sci_error_t error;

	SCIQuery(command, &query, 0, &error);
	if (error == SCI_ERR_OK)
		printf(json ? "\"%s\": \"%s\", " : "%-18s %s\n", name, buffer);
}

int main(int argc, char **argv)
{
	int json = argc > 1 && !strcmp(argv[1], "--json");
	char **words = argv + 1 + json;
	unsigned int adapter = *words ? (unsigned int)strtoul(*words++, NULL, 0) : 0;
	sci_error_t error;
	sci_desc_t sd;
	size_t i;

	SCIInitialize(0, &error);
	SCIOpen(&sd, 0, &error);
	if (error != SCI_ERR_OK) {
		fprintf(stderr, "FAILED: SCIOpen: %s\n", SCIGetErrorString(error));
		return 1;
	}
	if (json)
		printf("{");
	text(json, "vendor", SCI_Q_VENDORID);
	text(json, "api", SCI_Q_API);
	for (i = 0; facts[i].name; i++) {
		unsigned int answer;
		sci_query_adapter_t query = { adapter, 0, facts[i].subcommand, &answer };

		SCIQuery(SCI_Q_ADAPTER, &query, 0, &error);
		if (error == SCI_ERR_OK)
			printf(json ? "\"%s\": %u, " : "%-18s %u\n", facts[i].name, answer);
		else if (!json)
			printf("%-18s - (%s)\n", facts[i].name, SCIGetErrorString(error));
	}
	if (json)
		printf("\"nodes\": {");
	for (; *words; words++) {
		unsigned int node = (unsigned int)strtoul(*words, NULL, 0);
		int answers = SCIProbeNode(sd, adapter, node, 0, &error);

		if (json)
			printf("\"%u\": %s%s", node, answers ? "true" : "false", words[1] ? ", " : "");
		else
			printf("node %-13u %s\n", node, answers ? "answers" : SCIGetErrorString(error));
	}
	if (json)
		printf("}}\n");
	SCIClose(sd, 0, &error);
	SCITerminate();
	return 0;
}
