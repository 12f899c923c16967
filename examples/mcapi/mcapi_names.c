// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A name server on messages: MCAPI has none, and needs none in the library.
 *
 *	mcapi_names server [NAMES]		node 0; ends when so many names were registered
 *	mcapi_names client NODE NAME OTHER	registers NAME, finds OTHER, and says hello to it
 *
 * The server is the endpoint <0,0,0>, the only one that everybody has to know. Clients send it the
 * handles of theirs, which are values: whoever is given one may send messages to it at once.
 */
#include "common.h"

#include <stdio.h>
#include <string.h>

#define SERVER_NODE 0
#define SERVER_PORT 0
#define NAME_SIZE 32
#define NAMES_MAX 256

enum kind { REGISTER, FIND };

struct question {
	mcapi_endpoint_t reply_to;
	mcapi_endpoint_t endpoint; /* that is registered */
	mcapi_uint32_t kind;
	char name[NAME_SIZE];
};

struct answer {
	mcapi_endpoint_t endpoint;
	mcapi_uint32_t is_known;
};

static struct {
	char name[NAME_SIZE];
	mcapi_endpoint_t endpoint;
} names[NAMES_MAX];
static unsigned long known;

static struct answer look_up(const char *name)
{
	struct answer answer = { 0, 0 };
	unsigned long n;

	for (n = 0; n < known; n++) {
		if (strcmp(names[n].name, name) == 0) {
			answer.endpoint = names[n].endpoint;
			answer.is_known = 1;
		}
	}
	return answer;
}

static void enter(const struct question *question)
{
	if (known == NAMES_MAX || look_up(question->name).is_known)
		return;
	snprintf(names[known].name, sizeof(names[known].name), "%s", question->name);
	names[known++].endpoint = question->endpoint;
}

static void serve(unsigned long wanted)
{
	mcapi_endpoint_t own;
	struct question question;
	struct answer answer;
	mcapi_status_t status;
	unsigned long told = 0;
	size_t size;

	become(SERVER_NODE);
	own = mcapi_endpoint_create(SERVER_PORT, &status);
	check("mcapi_endpoint_create", status);
	printf("ready\n");
	fflush(stdout);
	/* Each client asks until it is told of another one. */
	while (told < wanted) {
		mcapi_msg_recv(own, &question, sizeof(question), &size, &status);
		check("mcapi_msg_recv", status);
		/* A client may send anything. */
		if (size != sizeof(question) || question.name[NAME_SIZE - 1])
			continue;
		if (question.kind == REGISTER)
			enter(&question);
		answer = look_up(question.name);
		told += question.kind == FIND && answer.is_known;
		mcapi_msg_send(own, question.reply_to, &answer, sizeof(answer), 0, &status);
		/* A client that has gone is not the server's trouble. */
	}
	printf("%lu names\n", known);
}

static struct answer ask(mcapi_endpoint_t server, mcapi_endpoint_t own, enum kind kind,
	const char *name, mcapi_endpoint_t endpoint)
{
	struct question question = { own, endpoint, kind, "" };
	struct answer answer;
	mcapi_status_t status;
	size_t size;

	snprintf(question.name, sizeof(question.name), "%s", name);
	mcapi_msg_send(own, server, &question, sizeof(question), 0, &status);
	check("mcapi_msg_send", status);
	mcapi_msg_recv(own, &answer, sizeof(answer), &size, &status);
	check("the server's answer", status);
	if (size != sizeof(answer))
		fail("the server's answer has another size");
	return answer;
}

static void greet(mcapi_node_t node, const char *name, const char *other)
{
	mcapi_endpoint_t server, questions, greetings;
	struct answer partner;
	mcapi_status_t status;
	char greeting[NAME_SIZE];
	size_t size;

	if (strlen(name) >= NAME_SIZE || strlen(other) >= NAME_SIZE)
		fail("a name is too long");
	become(node);
	questions = patient_endpoint(MCAPI_PORT_ANY);
	greetings = patient_endpoint(MCAPI_PORT_ANY);
	server = found(SERVER_NODE, SERVER_PORT);
	/* Greetings arrive at the endpoint that is registered, answers at the other one. */
	ask(server, questions, REGISTER, name, greetings);
	do
		partner = ask(server, questions, FIND, other, greetings);
	while (!partner.is_known);
	mcapi_msg_send(greetings, partner.endpoint, name, strlen(name) + 1, 0, &status);
	check("mcapi_msg_send", status);
	mcapi_msg_recv(greetings, greeting, sizeof(greeting), &size, &status);
	check("the greeting", status);
	printf("%s was greeted by %.*s\n", name, (int)size, greeting);
}

int main(int argc, char **argv)
{
	mcapi_status_t status;

	if (argc >= 2 && argc <= 3 && strcmp(argv[1], "server") == 0) {
		serve(argc == 3 ? number(argv[2], NAMES_MAX) : NAMES_MAX);
	} else if (argc == 5 && strcmp(argv[1], "client") == 0) {
		greet(number(argv[2], MCAPI_MAX_NODE), argv[3], argv[4]);
	} else {
		fprintf(stderr, "usage: %s server [NAMES] | client NODE NAME OTHER\n", argv[0]);
		return 2;
	}
	mcapi_finalize(&status);
	check("mcapi_finalize", status);
	return 0;
}
