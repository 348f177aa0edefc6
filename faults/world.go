package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// world is a cluster with an operator that reaches it through a proxy.
type world struct {
	subject    Subject
	options    Options
	core       kubernetes.Interface
	client     dynamic.Interface
	http       *http.Client
	proxy      *faultproxy.Proxy
	wire       *wire
	folder     string
	output     *os.File
	process    atomic.Pointer[process]
	expected   atomic.Bool // the process is gone because a case killed it
	reviving   sync.Mutex
	crashes    int // how often it ended by itself
	namespaces []string
}

// newWorld starts a proxy and the operator. The world needs close.
func newWorld(ctx context.Context, config *rest.Config, subject Subject, options Options) (w *world, err error) {
	if err := install(ctx, config, subject.Definitions); err != nil {
		return nil, err
	}
	w = &world{subject: subject, options: options}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("faults: %s: %w", subject.Name, err), w.close())
		}
	}()
	if w.http, err = rest.HTTPClientFor(config); err != nil {
		return w, err
	}
	if w.core, err = kubernetes.NewForConfigAndClient(config, w.http); err != nil {
		return w, err
	}
	if w.client, err = dynamic.NewForConfigAndClient(config, w.http); err != nil {
		return w, err
	}
	if w.folder, err = os.MkdirTemp("", "faults-"); err != nil {
		return w, err
	}
	if w.output, err = os.Create(filepath.Join(w.folder, "output.log")); err != nil {
		return w, err
	}
	wired := rest.CopyConfig(config)
	wired.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.wire = wrap(next)
		return w.wire
	})
	if w.proxy, err = faultproxy.New(wired); err != nil {
		return w, err
	}
	if err := w.writeKubeconfig(false); err != nil {
		return w, err
	}
	return w, w.start()
}

func (w *world) kubeconfig() string { return filepath.Join(w.folder, "kubeconfig") }

func (w *world) tokenFile() string { return filepath.Join(w.folder, "token") }

func (w *world) certificateFile() string { return filepath.Join(w.folder, "client.crt") }

func (w *world) keyFile() string { return filepath.Join(w.folder, "client.key") }

// writeKubeconfig writes the operator's kubeconfig file, with the files of its certificate or of its token.
func (w *world) writeKubeconfig(certified bool) error {
	const name = "faults"
	to := w.proxy.Config()
	if err := os.WriteFile(w.tokenFile(), []byte(to.BearerToken), 0o600); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: to.Host, CertificateAuthorityData: to.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: to.BearerToken, TokenFile: w.tokenFile()}
	if certified {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: w.certificateFile(), ClientKey: w.keyFile()}
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, w.kubeconfig())
}

// start starts the operator, which has seen nothing.
func (w *world) start() error {
	w.wire.forget()
	w.wire.recount()
	w.expected.Store(false)
	started, err := launch(w.subject.Command(w.kubeconfig()), w.output)
	if err != nil {
		return err
	}
	w.process.Store(started)
	return nil
}

// kill kills the operator. A trial that waits starts it again.
func (w *world) kill() {
	w.expected.Store(true)
	w.process.Load().kill()
}

// revive starts the operator again after a process has ended, unless that was done already.
func (w *world) revive(ended *process) error {
	w.reviving.Lock()
	defer w.reviving.Unlock()
	if w.process.Load() != ended {
		return nil
	}
	if !w.expected.Load() {
		w.crashes++
		w.options.Progress(fmt.Sprintf("%s ended by itself:\n%s", w.subject.Name, w.tail()))
	}
	return w.start()
}

// startTime bounds the wait for an operator that has started.
const startTime = 5 * time.Second

// back waits until an operator that has started has listed its kinds, and has no request left to send.
func (w *world) back(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	w.wire.idle(ctx, settleTime)
}

// tail returns the end of the operator's output.
func (w *world) tail() string {
	const most = 2000
	content, err := os.ReadFile(w.output.Name())
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-most):])
}

// close stops what newWorld started, and deletes the namespaces of the trials.
func (w *world) close() (err error) {
	if running := w.process.Load(); running != nil {
		running.stop()
	}
	if w.proxy != nil {
		err = errors.Join(err, w.proxy.Close(), w.wire.close())
	}
	for _, name := range w.namespaces {
		// The context of the run may have ended.
		err = errors.Join(err, w.core.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}))
	}
	if w.http != nil {
		utilnet.CloseIdleConnectionsFor(w.http.Transport)
	}
	if w.output != nil {
		err = errors.Join(err, w.output.Close())
	}
	return errors.Join(err, os.RemoveAll(w.folder))
}

// keptNamespaces is the number of trials whose namespaces stay until the end, where late writes are found.
// It is above the number of trials that run at the same time.
const keptNamespaces = 12

// trial is a namespace of its own, in which the workload runs.
type trial struct {
	*world
	user     *User
	observer *observer
	late     bool // the operator starts again when nothing changes any more
}

// newTrial creates a namespace. The trial needs end.
func (w *world) newTrial(ctx context.Context) (*trial, error) {
	made, err := w.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a namespace: %w", err)
	}
	w.namespaces = append(w.namespaces, made.Name)
	if len(w.namespaces) > keptNamespaces { // So that long runs do not fill the cluster.
		oldest := w.namespaces[0]
		w.namespaces = w.namespaces[1:]
		if err := w.core.CoreV1().Namespaces().Delete(ctx, oldest, metav1.DeleteOptions{}); err != nil {
			return nil, fmt.Errorf("delete the namespace %s: %w", oldest, err)
		}
	}
	t := &trial{world: w, user: newUser(made.Name, w.client)}
	// Pods need the service account, which comes after the namespace.
	accounts := namespaces.GroupVersion().WithResource("serviceaccounts")
	t.observer, err = observe(ctx, w.client, made.Name, append([]resource{accounts}, w.subject.Kinds...))
	if err != nil {
		return nil, err
	}
	err = t.await(ctx, w.options.Patience, func(seen State) error {
		if seen.Get(accounts, "default") == nil {
			return errors.New("the namespace has no service account")
		}
		return nil
	})
	if err != nil {
		err = errors.Join(err, t.end())
	}
	return t, err
}

// end ends the observation. The namespace stays for a while, so that late writes are seen.
func (t *trial) end() error { return t.observer.end() }

// await waits until the state has the user's changes and is as wanted. It starts the operator again when that ends.
func (t *trial) await(ctx context.Context, patience time.Duration, done func(State) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		seen, missing, changed, err := t.observer.lookAfter(t.user)
		if err != nil {
			return err
		}
		if missing == nil {
			missing = done(seen)
		}
		if missing == nil {
			return nil
		}
		running := t.process.Load()
		select {
		case <-changed:
		case <-running.ended:
			if t.late {
				t.calm(ctx)
			}
			if err := t.revive(running); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", patience, missing)
		}
	}
}

// calmTime is the time without a change after which the cluster has done what it can without the operator.
const calmTime = time.Second

// calm waits until no object changes for a while, or until the context ends.
func (t *trial) calm(ctx context.Context) {
	timer := time.NewTimer(calmTime)
	defer timer.Stop()
	for {
		_, changed, err := t.observer.look()
		if err != nil {
			return // The next look reports it.
		}
		select {
		case <-changed:
			timer.Reset(calmTime)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// run runs the whole workload, and waits for each step's result.
func (t *trial) run(ctx context.Context) error {
	for _, step := range t.subject.Workload {
		if err := t.step(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) step(ctx context.Context, step Step) error {
	if err := step.Do(ctx, t.user); err != nil {
		return fmt.Errorf("step %q: %w", step.Name, err)
	}
	if err := t.await(ctx, t.options.Patience, step.Done); err != nil {
		return fmt.Errorf("step %q: %w", step.Name, err)
	}
	return nil
}

// normal returns the state of the kinds that are compared.
func (t *trial) normal(seen State) fields { return normal(t.compared(seen), t.user.Namespace) }

// compared returns the objects of the kinds that are compared.
func (t *trial) compared(seen State) State {
	compared := State{}
	for _, kind := range t.subject.Kinds {
		for key, object := range seen {
			if prefix := keyOf(kind, ""); len(key) > len(prefix) && key[:len(prefix)] == prefix && !isOfCluster(object.GetKind(), object.GetName()) {
				compared[key] = object
			}
		}
	}
	return compared
}

// isOfCluster reports whether the cluster itself puts an object into each namespace.
func isOfCluster(kind, name string) bool {
	return kind == "ConfigMap" && name == "kube-root-ca.crt" || kind == "ServiceAccount" && name == "default"
}
