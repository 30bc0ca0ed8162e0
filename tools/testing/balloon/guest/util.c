// SPDX-License-Identifier: GPL-2.0
/* Helpers shared by init, the agent and the jobs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

ssize_t read_file(const char *path, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (len < size) {
		n = read(fd, buf + len, size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && len == 0)
			len = -errno;
		if (n <= 0)
			break;
		len += n;
	}
	close(fd);
	return len;
}

int write_file(const char *path, const char *text, size_t len)
{
	int err = 0;
	int fd;

	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		err = errno ? -errno : -EIO;
	close(fd);
	return err;
}

/*
 * Raw, and deaf to the carrier: a restored VM has its lines down until the
 * host side connects, which must not hang up the agent.
 */
int open_serial(const char *path)
{
	struct termios tio;
	int fd;

	fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (tcgetattr(fd, &tio) < 0)
		goto fail;
	cfmakeraw(&tio);
	tio.c_cflag |= CLOCAL | CREAD;
	tio.c_cflag &= ~(CRTSCTS | HUPCL);
	tio.c_cc[VMIN] = 1;
	tio.c_cc[VTIME] = 0;
	cfsetspeed(&tio, B115200);
	if (tcsetattr(fd, TCSANOW, &tio) < 0)
		goto fail;
	fcntl(fd, F_SETFL, 0);
	return fd;
fail:
	close(fd);
	return -EIO;
}

int load_module(const char *path, const char *params)
{
	int err = 0;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, params, 0) < 0)
		err = -errno;
	close(fd);
	return err;
}

unsigned long monotonic_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (unsigned long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void sleep_ms(unsigned int ms)
{
	struct timespec ts = { ms / 1000, (ms % 1000) * 1000000L };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* Find "key" or "key=value" on the kernel command line. */
int cmdline_value(const char *key, char *buf, size_t size)
{
	char line[4096];
	char *word, *save;
	size_t keylen = strlen(key);
	ssize_t len;

	len = read_file("/proc/cmdline", line, sizeof(line) - 1);
	if (len < 0)
		return len;
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	for (word = strtok_r(line, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		if (strncmp(word, key, keylen) ||
		    (word[keylen] && word[keylen] != '='))
			continue;
		snprintf(buf, size, "%s",
			 word[keylen] ? word + keylen + 1 : "");
		return 0;
	}
	return -ENOENT;
}

int set_oom_adj(int adj)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", adj);

	return write_file("/proc/self/oom_score_adj", text, len);
}

/* The kernel log takes the message without ever blocking on the console. */
void log_line(const char *fmt, ...)
{
	char line[256];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (len >= (int)sizeof(line))
		len = sizeof(line) - 1;
	write_file("/dev/kmsg", line, len);
}
