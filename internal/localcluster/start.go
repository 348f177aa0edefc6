package localcluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed stages/image-pull-back-off.yaml
var imagePullBackOffStage []byte

// portAttempts is the number of attempts to start the API server on new ports. An attempt fails
// if another process takes a port before the cluster listens on it.
const portAttempts = 5

// starter holds the state of one start of a cluster.
type starter struct {
	options     Options
	programs    programs
	host        host // for a real node
	directory   *directory
	choosePorts func(api int) (ports, error)
	identities  *identities
	apiReady    time.Duration // the time until the API server was ready
	ports       ports         // the ports of the last attempt
}

// start runs every component. It returns the children and the API server's URL when the API
// server is ready. If start fails, no child is left.
func (s *starter) start(ctx context.Context) (*family, string, error) {
	if err := s.prepare(); err != nil {
		return nil, "", err
	}
	for attempt := 1; ; attempt++ {
		children := newFamily(s.directory.path, s.environment())
		server, err := s.startIn(ctx, children)
		if err == nil {
			return children, server, nil
		}
		children.stop()
		if !errors.Is(err, errAddressInUse) || attempt == portAttempts {
			return nil, "", err
		}
		s.options.Logger.Warn("another process took a port before the cluster listened on it; trying other ports", "attempt", attempt)
	}
}

// prepare writes the files that do not depend on ports.
func (s *starter) prepare() error {
	var err error
	if s.identities, err = newIdentities(s.options.Nodes); err != nil {
		return err
	}
	if err := s.identities.write(s.directory); err != nil {
		return err
	}
	if s.options.AuditLog != "" {
		if err := s.directory.write(auditPolicy, auditPolicyOf(s.options.AuditUsers, s.options.AuditContent)); err != nil {
			return err
		}
	}
	return s.directory.write("image-pull-back-off.yaml", imagePullBackOffStage)
}

// environment returns the environment of the children. It hides the user's settings from them,
// such as variables like ETCD_NAME and kwok's configuration in the home directory.
func (s *starter) environment() []string {
	home, path := s.directory.path, os.Getenv("PATH")
	if s.options.Nodes == RealNode {
		path = s.host.path
	}
	return []string{"PATH=" + path, "HOME=" + home, "TMPDIR=" + home, "KWOK_WORKDIR=" + home}
}

// startIn starts every component as a member of children.
func (s *starter) startIn(ctx context.Context, children *family) (string, error) {
	ports, err := s.choosePorts(s.options.APIPort)
	if err != nil {
		return "", err
	}
	s.ports = ports
	server, started := url(ports.api), time.Now()
	if err := s.identities.writeKubeconfigs(s.directory, server); err != nil {
		return "", err
	}
	if err := os.RemoveAll(s.directory.file("etcd")); err != nil {
		return "", fmt.Errorf("remove the data of the last attempt: %w", err)
	}
	if s.options.Data != "" {
		s.options.Progress(Progress{Phase: "copying the data of the cluster"})
		if err := os.CopyFS(s.directory.file("etcd"), os.DirFS(s.options.Data)); err != nil {
			return "", fmt.Errorf("copy the data of the cluster: %w", err)
		}
	}
	client, err := rest.HTTPClientFor(s.adminConfig(server))
	if err != nil {
		return "", fmt.Errorf("create a client of the API server: %w", err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)

	if s.options.Nodes == RealNode {
		s.options.Progress(Progress{Phase: "starting a node"})
		if err := s.bootNode(children, ports); err != nil {
			return "", err
		}
	}
	if err := s.startAPI(ctx, children, ports, client); err != nil {
		return "", err
	}
	s.apiReady = time.Since(started)
	if s.options.APIOnly {
		return server, nil
	}
	return server, s.startRest(ctx, children, server, client)
}

// startAPI starts etcd and the API server, and waits until the API server is ready.
func (s *starter) startAPI(ctx context.Context, children *family, ports ports, client *http.Client) error {
	s.options.Progress(Progress{Phase: "starting etcd and kube-apiserver"})
	// The API server loads in parallel with etcd, and connects as soon as etcd answers.
	if err := children.start(s.programs.path("etcd"), etcdArguments(s.directory, ports)...); err != nil {
		return err
	}
	if err := children.start(s.programs.path("kube-apiserver"), apiServerArguments(s.directory, ports, s.options)...); err != nil {
		return err
	}
	return waitReady(ctx, client, "kube-apiserver", url(ports.api)+"/readyz", children)
}

// startRest starts the clients of the API server, which has to be ready. It populates the cluster
// unless it was started with data.
func (s *starter) startRest(ctx context.Context, children *family, server string, client *http.Client) error {
	runs := kwokName
	if s.options.Nodes == RealNode {
		runs = "kubelet"
	}
	s.options.Progress(Progress{Phase: "starting kube-controller-manager, kube-scheduler and " + runs})
	clientset, err := kubernetes.NewForConfigAndClient(s.adminConfig(server), client)
	if err != nil {
		return fmt.Errorf("create a client of the API server: %w", err)
	}
	if s.options.Data == "" {
		if err := populate(ctx, clientset, s.options.Nodes); err != nil {
			return err
		}
	}
	return s.startClients(ctx, children)
}

// startClients starts the components that need only an API server.
func (s *starter) startClients(ctx context.Context, children *family) error {
	err := errors.Join(
		children.start(s.programs.path("kube-controller-manager"), controllerManagerArguments(s.directory, s.options.Controllers)...),
		children.start(s.programs.path("kube-scheduler"), schedulerArguments(s.directory)...),
	)
	if err != nil {
		return err
	}
	if s.options.Nodes == RealNode {
		return s.startNode(ctx, children)
	}
	stages := slices.Concat(s.programs.stages, []string{s.directory.file("image-pull-back-off.yaml")})
	return children.start(s.programs.path(kwokName), kwokArguments(s.directory, stages)...)
}

func (s *starter) adminConfig(server string) *rest.Config {
	return restConfig(server, s.identities.ca, s.identities.admin)
}
