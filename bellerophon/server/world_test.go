package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// election is short, so that tests take seconds, and long enough for a machine with much to do.
const election = 300 * time.Millisecond

// world is a cluster whose members are processes.
type world struct {
	t       *testing.T
	dir     string
	peers   bool
	client  *client.Client
	members []*process
	waiting *lifecycle.Group
}

// process is a member. Its address and its volume outlive it.
type process struct {
	options Options
	command *exec.Cmd
	ended   chan struct{}
	log     *os.File
}

// newWorld starts n members. With peers they form a cluster by themselves.
func newWorld(t *testing.T, n int, peers bool) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), peers: peers, client: client.New(nil, election), waiting: lifecycle.New(context.Background())}
	t.Cleanup(w.close)
	var addresses []string
	for range n {
		addresses = append(addresses, freeAddress(t))
	}
	for i, address := range addresses {
		p := &process{options: Options{
			Name: fmt.Sprint("hero-", i), Listen: address, Address: address, Dir: filepath.Join(w.dir, fmt.Sprint(i)), Election: election,
		}}
		if peers {
			p.options.Peers = addresses
		}
		w.members = append(w.members, p)
		w.start(p)
	}
	return w
}

// handedOut has the addresses that freeAddress has returned.
var handedOut sync.Map

// freeAddress returns an address that no other process uses at the moment. The kernel may offer one again before the
// process that it was for listens, so each is returned once.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		if _, known := handedOut.LoadOrStore(listener.Addr().String(), true); !known {
			return listener.Addr().String()
		}
	}
}

// add starts one more member without peers.
func (w *world) add(name string) *process {
	w.t.Helper()
	address := freeAddress(w.t)
	p := &process{options: Options{Name: name, Listen: address, Address: address, Dir: filepath.Join(w.dir, name), Election: election}}
	w.members = append(w.members, p)
	w.start(p)
	return p
}

// encodable hides the options that have no JSON.
type encodable struct {
	Options
	Log, Connect *struct{}
}

func (w *world) start(p *process) {
	w.t.Helper()
	text, err := json.Marshal(encodable{p.options, nil, nil})
	if err != nil {
		w.t.Fatal(err)
	}
	if p.log, err = os.OpenFile(p.options.Dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		w.t.Fatal(err)
	}
	p.command = exec.Command(os.Args[0])
	p.command.Env = append(os.Environ(), asMember+"="+string(text))
	p.command.Stderr, p.command.Stdout = p.log, p.log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		w.t.Fatal(err)
	}
	command, ended := p.command, make(chan struct{})
	p.ended = ended
	w.waiting.Go("waiting for a member", func(context.Context) error { // Without it, the process would stay as a zombie.
		defer close(ended)
		_ = command.Wait()
		return nil
	})
}

// alone starts a member that is a cluster by itself, with a volume and a quota; 0 is the default quota.
func (w *world) alone(dir string, quota int64) *process {
	w.t.Helper()
	p := &process{options: Options{Name: "alone", Listen: freeAddress(w.t), Dir: dir, Election: election, Quota: quota}}
	p.options.Address = p.options.Listen
	p.options.Peers = []string{p.options.Address}
	w.members = append(w.members, p)
	w.start(p)
	w.ready(p)
	return p
}

// kill ends a member without a chance to do anything.
func (w *world) kill(p *process) { w.signal(p, syscall.SIGKILL) }

// stop ends a member as a kubelet does.
func (w *world) stop(p *process) { w.signal(p, syscall.SIGTERM) }

func (w *world) signal(p *process, signal os.Signal) {
	w.t.Helper()
	if p.command == nil {
		return
	}
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.t.Fatal(err)
	}
	<-p.ended
	_ = p.log.Close()
	p.command = nil
}

func (w *world) close() {
	for _, p := range w.members {
		w.kill(p)
	}
	w.client.Close()
	_ = w.waiting.Wait()
	if !w.t.Failed() {
		return
	}
	for _, p := range w.members {
		content, _ := os.ReadFile(p.options.Dir + ".log")
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		w.t.Logf("%s, the last lines:\n%s", p.options.Name, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
}

// eventually waits until a condition holds. The statuses of members have no event that a client could wait for.
func (w *world) eventually(what string, holds func() error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			w.t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

func (w *world) status(p *process) (client.Status, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	return w.client.Status(ctx, p.options.Address)
}

// answers waits until a member answers, and returns its status.
func (w *world) answers(p *process) (status client.Status) {
	w.t.Helper()
	w.eventually(p.options.Name+" answers", func() (err error) {
		status, err = w.status(p)
		return err
	})
	return status
}

// ready waits until members are ready and agree on a leader, and returns the leader.
func (w *world) ready(members ...*process) (leader *process) {
	w.t.Helper()
	w.eventually("all members are ready", func() error {
		leader = nil
		cluster := ""
		for _, p := range members {
			status, err := w.status(p)
			if err != nil {
				return err
			}
			if !status.Ready {
				return fmt.Errorf("%s is %+v", p.options.Name, status)
			}
			if cluster == "" {
				cluster = status.Cluster
			}
			if cluster != status.Cluster {
				w.t.Fatalf("there are two clusters: %s and %s", cluster, status.Cluster)
			}
			if status.Role == client.Leader {
				leader = p
			}
		}
		if leader == nil {
			return errors.New("none of them leads")
		}
		return nil
	})
	return leader
}

// formed waits until all members vote, and returns the leader.
func (w *world) formed() *process {
	w.t.Helper()
	leader := w.ready(w.members...)
	w.eventually("all members vote", func() error {
		status, err := w.status(leader)
		if err != nil {
			return err
		}
		voters := 0
		for _, one := range status.Members {
			if one.Voter {
				voters++
			}
		}
		if voters != len(w.members) {
			return fmt.Errorf("%d of %d vote: %+v", voters, len(w.members), status.Members)
		}
		return nil
	})
	return w.ready(w.members...)
}

// answered is an answer of a member.
type answered struct {
	code   int
	body   string
	header http.Header
}

// call sends a request to a member.
func (w *world) call(p *process, method, path, body string, header ...string) (answered, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.options.Address+path, strings.NewReader(body))
	if err != nil {
		return answered{}, err
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := plain.Do(request)
	if err != nil {
		return answered{}, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return answered{response.StatusCode, string(content), response.Header}, err
}

// plain keeps no connections, so that it leaves no goroutines.
var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// must sends a request whose answer is known.
func (w *world) must(p *process, method, path, body string, want int, header ...string) answered {
	w.t.Helper()
	got, err := w.call(p, method, path, body, header...)
	if err != nil || got.code != want {
		w.t.Fatalf("%s %s at %s: %d %s (%v), want %d", method, path, p.options.Name, got.code, got.body, err, want)
	}
	return got
}
