package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/ideal"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// quiet is how long nothing may happen before a contender counts as idle. It is longer than the
	// one second by which an unfinished status may be late.
	quiet = 2 * time.Second
	// idealInFlight is how many objects the ideal client that judges a round writes concurrently.
	// Without other clients, it is no faster with twice as many.
	idealInFlight = 16
	// idealNamespace is the namespace of the ideal client's objects.
	idealNamespace = "ideal"
	// account is the name of the ServiceAccount that all contenders use.
	account = "contender"
	// tokenSeconds is the lifetime of the account's token. It is longer than any round.
	tokenSeconds = 12 * 3600
	// setUpLimit and idealLimit bound the steps of a round before the contender starts.
	setUpLimit = 2 * time.Minute
	idealLimit = 5 * time.Minute
)

// testbed is a fresh cluster with its clients, proxy and judge, in which a round runs.
type testbed struct {
	run     *run
	dir     string // the round's folder
	cluster *localcluster.Cluster
	clients *scenario.Clients
	proxy   *proxy.Proxy
	faults  *faultproxy.Proxy // behind the other proxy, or nil if the scenario does not disturb the API server
	members *members          // the processes of a scenario that has several
	judge   *scenario.Judge
	token   string
	ends    []func() error
}

// withoutServers are the controllers that objects without servers need. Where objects exist before a round,
// the others would first check each of them and of its children. Among 50,000 objects that takes two
// minutes, and then they have nothing to do.
var withoutServers = []string{"statefulset-controller"}

// newTestbed sets up the testbed of a round. If data is not empty, it is the folder whose cluster
// data the testbed starts with. The caller closes the testbed, also after an error.
func (r *run) newTestbed(ctx context.Context, p planned, data string) (*testbed, error) {
	dir := filepath.Join(r.Dir, "rounds", p.ID())
	s := &testbed{run: r, dir: dir}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return s, fmt.Errorf("making the folder of a round: %w", err)
	}
	limit := setUpLimit
	if data != "" {
		limit += time.Duration(p.scenario.N) * foundLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("setting up a round took longer than %v", limit))
	defer cancel()
	options := localcluster.Options{Data: data}
	if data != "" && p.scenario.Replicas() == 0 {
		options.Controllers = withoutServers
	}
	if err := s.start(ctx, options); err != nil {
		return s, err
	}
	server, token := s.cluster.AdminConfig(), s.token
	var err error
	if p.scenario.Disturbs {
		account := rest.AnonymousClientConfig(server)
		account.BearerToken = s.token
		if s.faults, err = faultproxy.New(account); err != nil {
			return s, err
		}
		s.ends = append(s.ends, s.faults.Close)
		server = s.faults.Config()
		token = server.BearerToken
	}
	if s.proxy, err = proxy.New(server, p.scenario.RoundTrip()); err != nil {
		return s, err
	}
	s.ends = append(s.ends, s.proxy.Close)
	s.members = newMembers(s.proxy, server, token)
	s.judge, err = scenario.NewJudge(ctx, s.clients, s.members.saw)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	s.ends = append(s.ends, s.judge.Close, func() error { return os.RemoveAll(kubeconfig) })
	if err != nil {
		return s, err
	}
	if data != "" {
		if err := s.calm(ctx); err != nil {
			return s, err
		}
	}
	return s, s.proxy.WriteKubeconfig(kubeconfig, token)
}

// start starts a cluster and prepares it for contenders.
func (s *testbed) start(ctx context.Context, options localcluster.Options) (err error) {
	s.run.show.step("starting etcd and the API server", 0, 0)
	if s.cluster, err = localcluster.Start(ctx, options); err != nil {
		return err
	}
	s.ends = append(s.ends, s.cluster.Stop)
	config := s.cluster.AdminConfig()
	if _, err := install.Operator(ctx, config, install.Options{}); err != nil {
		return err
	}
	if s.clients, err = scenario.NewClients(config); err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { s.clients.Close(); return nil })
	return s.populate(ctx)
}

// close takes everything down, in reverse order.
func (s *testbed) close() error {
	var err error
	for i := len(s.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, s.ends[i]())
	}
	return err
}

// populate creates the namespaces and the contender's ServiceAccount, and requests its token. The
// objects already exist if the cluster started with data of another one.
func (s *testbed) populate(ctx context.Context) error {
	core := s.clients.Core()
	for _, name := range []string{scenario.Namespace, idealNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the namespace %s: %w", name, err)
		}
	}
	accounts := core.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the contender's account: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: account}},
	}
	if _, err := core.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("binding the contender's account to cluster-admin: %w", err)
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := accounts.CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting the contender's token: %w", err)
	}
	s.token = answer.Status.Token
	return nil
}

// ideal runs the ideal client as the contender's user, removes its objects, and returns its rate in
// objects per second.
func (s *testbed) ideal(ctx context.Context, objects int, replicas int32) (rate float64, err error) {
	s.run.show.step("the ideal client", 0, 0)
	ctx, cancel := context.WithTimeoutCause(ctx, idealLimit, fmt.Errorf("the ideal client took longer than %v", idealLimit))
	defer cancel()
	config := rest.AnonymousClientConfig(s.cluster.AdminConfig())
	config.BearerToken = s.token
	// The first burst warms up the API server and is not measured.
	for _, burst := range []ideal.Burst{
		{Namespace: idealNamespace, Prefix: "warm", Objects: max(1, objects/4), InFlight: idealInFlight, Replicas: replicas},
		{Namespace: idealNamespace, Prefix: "ideal", Objects: objects, InFlight: idealInFlight, Replicas: replicas},
	} {
		result, err := burst.Run(ctx, config)
		if err != nil {
			return 0, err
		}
		rate = float64(objects) / result.Elapsed.Seconds()
	}
	return rate, s.clients.Clear(ctx, idealNamespace)
}

// round makes one round. It returns an error only if the run ends: the cause of the context, or
// errLimit.
func (r *run) round(ctx context.Context, p planned) (rundir.Round, error) {
	round := p.Round
	data, err := r.finding(ctx, p)
	if err == nil && r.isLate() { // Making the data may have taken long. The resumed run finds it.
		return round, errLimit
	}
	round.Start = time.Now()
	var measured measurement
	if err == nil {
		measured, err = r.measured(ctx, p, data)
	}
	round.End = time.Now()
	round.Measured, round.Samples, round.Exec = measured.Measured, measured.samples, measured.exec
	if ctx.Err() != nil {
		return round, context.Cause(ctx)
	}
	var failure *scenario.Failure
	switch {
	case errors.As(err, &failure):
		round.Failed = failure.Error()
	case err != nil:
		round.Rejected = err.Error()
	}
	return round, nil
}

// measurement is what was measured in a round.
type measurement struct {
	rundir.Measured
	samples rundir.Samples
	exec    time.Time
}

// measure measures a round. If data is not empty, it is the folder whose cluster data the round
// starts with.
func (r *run) measure(ctx context.Context, p planned, data string) (made measurement, err error) {
	port, err := contender.FreePort()
	if err != nil {
		return made, err
	}
	if r.prometheus != nil {
		if err := r.prometheus.contender(p.Round, port, cmp.Or(r.paths[p.Contender], "/metrics")); err != nil {
			return made, err
		}
		defer func() { err = errors.Join(err, r.prometheus.noTarget()) }()
	}
	r.usage.begin(p.Round)
	defer r.usage.end()
	s, err := r.newTestbed(ctx, p, data)
	defer func() { err = s.end(err) }()
	if err != nil {
		return made, err
	}
	if err := r.noteServers(ctx, s); err != nil {
		return made, err
	}
	r.usage.count(s.members.counts)
	made.Measured = rundir.Measured{}
	world := s.world(p, func(ctx context.Context) (scenario.Process, error) {
		process, err := s.contender(ctx, p, port)
		if err != nil {
			return nil, err
		}
		r.usage.follow("contender", process.PID())
		if err := r.scrape(p, process.MetricsURL(), port); err != nil {
			_, _ = process.Stop() // The harness failed; an error of Stop must not make it the contender's failure.
			return nil, err
		}
		return process, nil
	})
	world.StartMember = func(ctx context.Context, role scenario.Role) (scenario.Member, *proxy.Proxy, error) {
		return s.member(ctx, p, role, port)
	}
	r.usage.follow("etcd", world.Servers[0])
	r.usage.follow("apiserver", world.Servers[1])
	if r.Ideal > 0 {
		rate, err := s.ideal(ctx, r.Ideal, p.scenario.Replicas())
		if err != nil {
			return made, err
		}
		made.Measured[rundir.IdealConverge] = float64(r.Ideal) / rate
		made.Measured[rundir.IdealObjects] = float64(r.Ideal)
		made.Measured[rundir.IdealReplicas] = float64(p.scenario.Replicas())
		if p.scenario.Found {
			made.Measured[rundir.IdealAmong] = float64(p.scenario.N)
		}
		if p.scenario.Paced {
			if world.Rate, err = r.ceiling(rate, p.scenario.Replicas()); err != nil {
				return made, err
			}
		}
		if data != "" {
			if err := s.calm(ctx); err != nil {
				return made, err
			}
		}
	}
	if r.prometheus != nil {
		if err := r.prometheus.server(s, p.Round); err != nil {
			return made, err
		}
	}
	measured, err := p.scenario.Run(ctx, world)
	maps.Copy(made.Measured, measured)
	made.samples, made.exec = world.Samples, world.Exec
	return made, errors.Join(err, s.proxy.Record().WriteFile(filepath.Join(s.dir, "proxy.jsonl")), s.members.write(s.dir))
}

// world returns the scenario's view of the testbed.
func (s *testbed) world(p planned, start func(context.Context) (scenario.Process, error)) *scenario.World {
	return &scenario.World{
		Clients: s.clients, Proxy: s.proxy, Faults: s.faults, Judge: s.judge, Warm: p.Warm, Quiet: quiet, Calm: s.calm, Progress: s.run.show.step,
		Servers: []int{s.cluster.PID("etcd"), s.cluster.PID("kube-apiserver")}, Start: start, RestartServer: s.restartServer,
	}
}

// restartServer kills the API server and starts it again.
func (s *testbed) restartServer(ctx context.Context) (pid int, err error) {
	const server = "kube-apiserver"
	if err := s.cluster.Restart(ctx, server); err != nil {
		return 0, err
	}
	pid = s.cluster.PID(server)
	s.run.usage.follow("apiserver", pid)
	return pid, nil
}

// contender starts the contender of a round.
func (s *testbed) contender(ctx context.Context, p planned, port int) (*contender.Process, error) {
	program := s.run.programs[p.Contender]
	if p.scenario.ManyKinds {
		program = s.run.kinds[p.Contender]
	}
	return program.Start(context.WithoutCancel(ctx), s.settings(p, port))
}

// settings returns the settings of the contender of a round.
func (s *testbed) settings(p planned, port int) contender.Settings {
	kinds := 0
	if p.scenario.ManyKinds {
		kinds = p.scenario.N
	}
	return contender.Settings{
		Kinds: kinds, Kubeconfig: filepath.Join(s.dir, "kubeconfig"), Output: filepath.Join(s.dir, "contender.log"),
		Workers: p.setting.workers, MemoryLimit: p.setting.memory, MetricsPort: port, Processors: s.run.own, Limits: s.run.hard,
	}
}

// noteServers adds the versions of the API server and etcd to run.json, unless it has them.
func (r *run) noteServers(ctx context.Context, s *testbed) error {
	const kubernetes, etcd = "Kubernetes", "etcd"
	described, err := rundir.ReadRun(r.Dir)
	if err != nil || (described.Versions[kubernetes] != "" && described.Versions[etcd] != "") {
		return err
	}
	version, err := s.clients.Core().Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("requesting the version of the API server: %w", err)
	}
	described.Versions[kubernetes] = version.GitVersion
	if described.Versions[etcd], err = s.cluster.EtcdVersion(ctx); err != nil {
		return err
	}
	return rundir.WriteRun(r.Dir, described)
}

// scrape passes the path of a contender's metrics to Prometheus, unless it is already known.
func (r *run) scrape(p planned, metrics string, port int) error {
	served, err := url.Parse(metrics)
	if err != nil {
		return fmt.Errorf("reading the address of the metrics: %w", err)
	}
	if r.prometheus == nil || r.paths[p.Contender] == served.Path {
		return nil
	}
	r.paths[p.Contender] = served.Path
	return r.prometheus.contender(p.Round, port, served.Path)
}

// end closes the testbed and returns what went wrong. If the cluster died, end returns that instead
// of err: an error that a dead cluster causes is not the contender's failure.
func (s *testbed) end(err error) error {
	if s.cluster != nil && s.cluster.Err() != nil {
		err = s.cluster.Err()
	}
	return errors.Join(err, s.close())
}
