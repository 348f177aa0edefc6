package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// paging runs bellerophon page until the script ends. It sets PAGE to the URL with the key, and SITE to the URL without a path.
func paging(ts *testscript.TestScript, _ bool, args []string) {
	path := filepath.SplitList(ts.Getenv("PATH"))[0]
	command := exec.Command(filepath.Join(path, "bellerophon"), append([]string{"page"}, args...)...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	ts.Check(err)
	ts.Check(command.Start())
	ts.Defer(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // It may have ended.
		if err := command.Wait(); err != nil {
			ts.Fatalf("bellerophon page: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	_, url, _ := strings.Cut(line, "the page: ")
	url, _, _ = strings.Cut(url, " ")
	site, _, isPage := strings.Cut(url, "/page/?key=")
	if !isPage {
		ts.Fatalf("it prints %q", line)
	}
	ts.Setenv("PAGE", url)
	ts.Setenv("SITE", site)
}

// browses sends requests as one browser: METHOD URL STATUS [HOST]. Each line of its arguments is one request. It prints the beginning of the last answer.
func browses(ts *testscript.TestScript, _ bool, args []string) {
	jar, err := cookiejar.New(nil)
	ts.Check(err)
	client := &http.Client{Jar: jar, Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, each := range args {
		fields := strings.Fields(each)
		request, err := http.NewRequest(fields[0], fields[1], nil)
		ts.Check(err)
		if len(fields) > 3 {
			request.Host = fields[3]
		}
		answer, err := client.Do(request)
		ts.Check(err)
		read := make([]byte, 1<<10)
		count, _ := io.ReadAtLeast(answer.Body, read, len("event: state")) // A short refusal ends before.
		_ = answer.Body.Close()
		if _, err := ts.Stdout().Write(read[:count]); err != nil {
			ts.Fatalf("%v", err)
		}
		if !strings.HasPrefix(answer.Status, fields[2]) {
			ts.Fatalf("%s: %s %s", each, answer.Status, read[:count])
		}
	}
}
