package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// output is what a program has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(sent []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(sent)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// following is a command that follows the pods of an operator.
type following struct {
	t           *testing.T
	out, errors output
	command     *exec.Cmd
}

func newFollowing(t *testing.T, kubeconfig string, args ...string) *following {
	t.Helper()
	program, err := exec.LookPath("bellerophon") // TestMain has put it there.
	if err != nil {
		t.Fatal(err)
	}
	made := &following{t: t, command: exec.Command(program, append(args, "--operator-namespace", "operators", "--kubeconfig", kubeconfig)...)}
	made.command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	made.command.Stdout, made.command.Stderr = &made.out, &made.errors
	if err := made.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.command.Process.Kill() }) // It has ended, unless the test has failed.
	return made
}

// shows waits until an output has a text.
func (f *following) shows(in *output, text string) {
	f.t.Helper()
	f.until("it shows "+text, func() bool { return strings.Contains(in.String(), text) })
}

func (f *following) until(what string, holds func() bool) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("not within 20 s: %s; it prints\n%s\nand to stderr\n%s", what, f.out.String(), f.errors.String())
		}
	}
}

// ends ends the command as Ctrl-C does.
func (f *following) ends() {
	f.t.Helper()
	if err := f.command.Process.Signal(syscall.SIGINT); err != nil {
		f.t.Fatal(err)
	}
	if err := f.command.Wait(); err != nil {
		f.t.Errorf("Ctrl-C ends it with %v:\n%s", err, f.errors.String())
	}
	if noise := regexp.MustCompile(`(?m)^.*(portforward|Unhandled|[EIW]\d{4} ).*$`).FindString(f.errors.String()); noise != "" {
		f.t.Errorf("stderr has more than messages: %s", noise)
	}
}

// follows are the commands that follow, each with a text that each answer shows.
var follows = map[string]struct{ args, shows string }{
	"why":         {"why configmaps/pegasus -n stables --follow", "an attempt succeeded"},
	"why in JSON": {"why configmaps/pegasus -n stables --follow -o json", `"attempts":[{`},
	"top":         {"top --follow", "horses "},
	"tree":        {"tree configmaps/pegasus -n stables --follow -o json", `"pegasus"`},
}

func TestACommandThatFollowsGoesOnWithTheNextPod(t *testing.T) {
	for name, test := range follows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newForwarding(t)
			first := cluster.starts("operator-1", controller.Options{})
			command := newFollowing(t, cluster.kubeconfig, strings.Fields(test.args)...)
			command.shows(&command.out, test.shows)

			cluster.deletes(first)
			command.shows(&command.errors, "no answer, asking again until Ctrl-C: ")
			command.shows(&command.errors, "no pod with the labels app.kubernetes.io/name=bellerophon-operator runs in the namespace operators")
			shown := strings.Count(command.out.String(), test.shows)
			cluster.starts("operator-2", controller.Options{})
			command.shows(&command.errors, "the operator answers again after ")
			command.until("the next pod has answered", func() bool { return strings.Count(command.out.String(), test.shows) > shown })
			command.ends()
		})
	}
}

// The enemies are old pods that hang, as on a node without power. One stays in the list, and one is being deleted.
func TestACommandThatFollowsLeavesAPodThatHangs(t *testing.T) {
	for name, test := range map[string]struct {
		args   string
		change func(*operatorPod)
	}{
		"why":                      {"why configmaps/pegasus -n stables --follow", func(*operatorPod) {}},
		"top, as the pod is to go": {"top --follow", func(pod *operatorPod) { pod.pod.DeletionTimestamp = new(metav1.Now()) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newForwarding(t)
			first := cluster.starts("operator-1", controller.Options{})
			command := newFollowing(t, cluster.kubeconfig, append(strings.Fields(test.args), "--timeout", "1500ms")...)
			command.until("it shows an answer", func() bool { return command.out.String() != "" })
			cluster.starts("operator-2", controller.Options{})
			cluster.marks(first, func(pod *operatorPod) {
				pod.hangs = true
				test.change(pod)
			})
			command.shows(&command.errors, "no answer, asking again until Ctrl-C: the operator has not answered for 1.5s")
			lost := time.Now()
			command.shows(&command.errors, "the operator answers again after ")
			if took := time.Since(lost); first.pod.DeletionTimestamp != nil && took > 2*time.Second { // The pause is 1 s.
				t.Errorf("it asks a pod that is being deleted before another one: it takes %v", took)
			}
			command.ends()
		})
	}
}

// browser opens the page that a command serves.
func (f *following) browser() (get func(path string) (code int, text string)) {
	f.t.Helper()
	f.shows(&f.out, "(Ctrl-C ends it)")
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	url := strings.Fields(strings.TrimPrefix(f.out.String(), "the page: "))[0]
	site, _, _ := strings.Cut(url, "/page/")
	ask := func(url string) (int, string) {
		answer, err := client.Get(url)
		if err != nil {
			f.t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return 0, err.Error() // The operator has ended within the answer.
		}
		return answer.StatusCode, string(text)
	}
	if code, text := ask(url); code != http.StatusOK || !strings.Contains(text, "<html") {
		f.t.Fatalf("the page is %d %s", code, text)
	}
	return func(path string) (int, string) { return ask(site + path) }
}

func TestThePageGoesOnWithTheNextPod(t *testing.T) {
	t.Parallel()
	cluster := newForwarding(t)
	first := cluster.starts("operator-1", controller.Options{})
	command := newFollowing(t, cluster.kubeconfig, "page")
	get := command.browser()
	if code, text := get("/debug/manager"); code != http.StatusOK || !strings.Contains(text, `"horses"`) {
		t.Fatalf("the state is %d %s", code, text)
	}
	cluster.deletes(first)
	if code, text := get("/debug/manager"); code != http.StatusBadGateway || !strings.Contains(text, "the page connects again when it does") {
		t.Errorf("without a pod the state is %d %s", code, text)
	}
	command.shows(&command.errors, "no pod with the labels app.kubernetes.io/name=bellerophon-operator runs")
	cluster.starts("operator-2", controller.Options{})
	command.shows(&command.errors, "the operator answers again after ")
	command.until("the page shows the next pod", func() bool {
		code, text := get("/debug/why?object=configmaps/pegasus&namespace=stables")
		return code == http.StatusOK && strings.Contains(text, `"attempts":[{`)
	})
	command.ends()
}

func TestThePageGoesOnWithThePodThatLeadsNow(t *testing.T) {
	t.Parallel()
	cluster := newForwarding(t)
	replica := func(name string) controller.Options {
		return controller.Options{LeaderElection: controller.LeaderElection{Lease: "operators/operator", Identity: name, LeaseDuration: time.Second}}
	}
	first := cluster.starts("operator-a", replica("operator-a"))
	command := newFollowing(t, cluster.kubeconfig, "page")
	get := command.browser()
	leads := func(name string) func() bool {
		return func() bool {
			_, text := get("/debug/manager")
			return strings.Contains(text, `"leads": true`) && strings.Contains(text, `"identity": "`+name+"_")
		}
	}
	command.until("the first replica leads", leads("operator-a"))
	cluster.starts("operator-b", replica("operator-b"))
	cluster.marks(first, func(pod *operatorPod) { pod.alone = true })
	command.shows(&command.errors, "another pod leads now: operator-b_")
	command.until("the page shows the other replica", leads("operator-b"))
	command.ends()
}
