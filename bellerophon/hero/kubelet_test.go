package hero

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/server"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// kubelet runs a real member for each pod of the simulated node. The member's volume belongs to the pod's claim, and its
// process is started again when it ends.
type kubelet struct {
	t         *testing.T
	core      kubernetes.Interface
	namespace string // empty for all
	dir       string
	group     *lifecycle.Group

	mu        sync.Mutex
	pods      map[types.UID]*containerOf
	volumes   map[types.UID]<-chan struct{} // by claim: closed when the last process that has the volume has ended
	handedOut map[string]bool               // addresses that freeAddress has returned
	prepare   func(pod, folder string)      // fills the volume of a pod before its member starts; nil for none
	least     int                           // the smallest number of pods since mark
}

// mark begins to count the pods that run.
func (k *kubelet) mark() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.least = len(k.pods)
}

// fewest returns the smallest number of pods that ran since mark.
func (k *kubelet) fewest() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.least
}

// containerOf is the process of a pod.
type containerOf struct {
	namespace, pod string
	address        string // of the member, in its cluster
	listen         string // on this host
	stop           context.CancelFunc
	free           <-chan struct{} // closed when the last pod has released the volume; nil if there was none
	done           chan struct{}   // closed when the process has ended

	mu      sync.Mutex
	command *exec.Cmd
}

func newKubelet(t *testing.T, core kubernetes.Interface, namespace string) *kubelet {
	t.Helper()
	k := &kubelet{t: t, core: core, namespace: namespace, dir: t.TempDir(), group: lifecycle.New(context.Background()), pods: map[types.UID]*containerOf{}, volumes: map[types.UID]<-chan struct{}{}, handedOut: map[string]bool{}}
	k.group.Go("kubelet", k.run)
	t.Cleanup(func() {
		k.group.Stop()
		if err := k.group.Wait(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(k.dir, "*.log"))
			for _, log := range logs {
				content, _ := os.ReadFile(log)
				t.Logf("%s:\n%s", filepath.Base(log), content[max(0, len(content)-3000):])
			}
		}
	})
	return k
}

// run follows the pods of heroes until ctx ends.
func (k *kubelet) run(ctx context.Context) error {
	selected := metav1.ListOptions{LabelSelector: owned.LabelApp + "=" + appName}
	for ctx.Err() == nil {
		list, err := k.core.CoreV1().Pods(k.namespace).List(ctx, selected)
		if err != nil {
			return err
		}
		for i := range list.Items {
			k.sync(ctx, &list.Items[i])
		}
		from := selected
		from.ResourceVersion = list.ResourceVersion
		watcher, err := k.core.CoreV1().Pods(k.namespace).Watch(ctx, from)
		if err != nil {
			return err
		}
		for event := range watcher.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			switch {
			case !is:
			case event.Type == watch.Deleted:
				k.remove(pod.UID)
			default:
				k.sync(ctx, pod)
			}
		}
		watcher.Stop()
	}
	return ctx.Err()
}

// sync starts the process of a pod that runs.
func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || k.pods[pod.UID] != nil {
		return
	}
	claim, err := k.core.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, volumeData+"-"+pod.Name, metav1.GetOptions{})
	if err != nil {
		return // The context has ended.
	}
	listen, err := k.freeAddress(ctx)
	if err != nil {
		return
	}
	running, stop := context.WithCancel(k.group.Context())
	done := make(chan struct{})
	c := &containerOf{namespace: pod.Namespace, pod: pod.Name, address: addressIn(pod), listen: listen, stop: stop, free: k.volumes[claim.UID], done: done}
	k.pods[pod.UID], k.volumes[claim.UID] = c, done
	k.publish()
	options := memberOptions{
		Name: pod.Name, Listen: listen, Dir: filepath.Join(k.dir, string(claim.UID)), Hosts: k.hosts(), Address: c.address, TLS: k.mount(ctx, pod),
	}
	if k.prepare != nil {
		if err := os.MkdirAll(options.Dir, 0o700); err != nil {
			k.t.Error(err)
		}
		k.prepare(pod.Name, options.Dir)
	}
	k.group.Go("container of "+pod.Name, func(context.Context) error { return k.keepRunning(running, c, options) })
}

// freeAddress returns an address for a process. The kernel may offer one again before the process that it was for
// listens, so each is returned once.
func (k *kubelet) freeAddress(ctx context.Context) (string, error) {
	for {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		address := listener.Addr().String()
		_ = listener.Close()
		if !k.handedOut[address] {
			k.handedOut[address] = true
			return address, nil
		}
	}
}

// mount writes the Secret of a pod to files, as it is now. Without a Secret there are none.
func (k *kubelet) mount(ctx context.Context, pod *corev1.Pod) (files server.Files) {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name != volumeTLS {
			continue
		}
		secret, err := k.core.CoreV1().Secrets(pod.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			k.t.Errorf("pod %s has no Secret: %v", pod.Name, err)
			continue
		}
		path := func(name string) string { return filepath.Join(k.dir, string(pod.UID)+"."+name) }
		for name, content := range secret.Data {
			if err := os.WriteFile(path(name), content, 0o600); err != nil {
				k.t.Error(err)
			}
		}
		files = server.Files{Certificate: path(corev1.TLSCertKey), Key: path(corev1.TLSPrivateKeyKey), Authorities: path(authorityKey)}
	}
	return files
}

// memberOptions are the options of a member in a process of its own.
type memberOptions struct {
	Name, Listen, Address, Dir string
	Hosts                      string // the file that resolves addresses of members
	TLS                        server.Files
}

// election is short, so that tests take seconds. With half of it, the race detector on a busy machine would cause
// elections.
const election = 600 * time.Millisecond

func (o memberOptions) server() server.Options {
	return server.Options{Name: o.Name, Listen: o.Listen, Address: o.Address, Dir: o.Dir, Election: election, Connect: hosts(o.Hosts).dial, TLS: o.TLS}
}

// hosts is the file that says where the members listen, by their addresses.
type hosts string

func (h hosts) dial(ctx context.Context, address string) (net.Conn, error) {
	content, err := os.ReadFile(string(h))
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	if err := json.Unmarshal(content, &known); err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", known[address])
}

// addressIn returns the address of the member in a pod.
func addressIn(pod *corev1.Pod) string {
	return fmt.Sprintf("%s.%s-members.%s.svc:%d", pod.Name, pod.Labels[owned.LabelInstance], pod.Namespace, port)
}

// hosts returns the path of the file with the members' addresses.
func (k *kubelet) hosts() string { return filepath.Join(k.dir, "hosts.json") }

// publish writes the addresses of all pods: by name for members, and by UID for the operator. The caller holds the lock.
func (k *kubelet) publish() {
	known := map[string]string{}
	for uid, c := range k.pods {
		known[c.address], known[string(uid)] = c.listen, c.listen
	}
	content, err := json.Marshal(known)
	if err != nil {
		k.t.Error(err)
	}
	next := filepath.Join(k.dir, "hosts.new")
	if err := os.WriteFile(next, content, 0o600); err != nil {
		k.t.Error(err)
	}
	if err := os.Rename(next, k.hosts()); err != nil {
		k.t.Error(err)
	}
}

func (k *kubelet) keepRunning(ctx context.Context, c *containerOf, options memberOptions) error {
	defer close(c.done)
	if c.free != nil {
		<-c.free
	}
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(k.dir, c.address+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	for ctx.Err() == nil {
		command := exec.CommandContext(ctx, os.Args[0])
		command.Env = append(os.Environ(), asMember+"="+string(text))
		command.Stderr, command.Stdout = log, log
		command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
		command.WaitDelay = 20 * time.Second
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := command.Start(); err != nil {
			return err
		}
		c.mu.Lock()
		c.command = command
		c.mu.Unlock()
		_ = command.Wait()
		if code := command.ProcessState.ExitCode(); code == client.ExitDamaged && ctx.Err() == nil {
			k.report(ctx, c, int32(code))
		}
		wait(ctx, 100*time.Millisecond)
	}
	return nil
}

// report writes the exit code of a member to the status of its pod, as the kubelet does while it backs off.
func (k *kubelet) report(ctx context.Context, c *containerOf, code int32) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	status := map[string]any{"status": corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: containerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: ended,
	}}}}
	patch, err := json.Marshal(status)
	if err != nil {
		k.t.Error(err)
	}
	_, err = k.core.CoreV1().Pods(c.namespace).Patch(ctx, c.pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
		k.t.Errorf("reporting the exit of %s: %v", c.pod, err)
	}
}

// remove ends the process of a pod that is gone.
func (k *kubelet) remove(pod types.UID) {
	k.mu.Lock()
	c := k.pods[pod]
	delete(k.pods, pod)
	k.least = min(k.least, len(k.pods))
	k.publish()
	k.mu.Unlock()
	if c != nil {
		c.stop()
	}
}

// dial connects to the member of a pod, for the operator.
func (k *kubelet) dial(ctx context.Context, pod *corev1.Pod) (net.Conn, error) {
	k.mu.Lock()
	c := k.pods[pod.UID]
	k.mu.Unlock()
	if c == nil {
		return nil, fmt.Errorf("pod %s does not run", pod.Name)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", c.listen)
}

// running returns the loopback addresses of all members of a hero, by pod.
func (k *kubelet) running() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := map[string]string{}
	for _, c := range k.pods {
		found[c.pod] = c.listen
	}
	return found
}

// kill kills the process of a pod.
func (k *kubelet) kill(pod string) { k.signal(pod, syscall.SIGKILL) }

// signal sends a signal to the process of a pod.
func (k *kubelet) signal(pod string, signal syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.pods {
		if c.pod == pod {
			c.mu.Lock()
			if c.command != nil {
				_ = c.command.Process.Signal(signal)
			}
			c.mu.Unlock()
		}
	}
}
