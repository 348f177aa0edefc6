package command

import (
	"log/slog"
	"net"
	"os"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/processors"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes/scheme"
)

// NewOperator is the command that runs the operator.
func NewOperator() *cobra.Command {
	var kubeconfig, level, format string
	var options controller.Options
	command := &cobra.Command{
		Use:   "operator",
		Short: "Run the operator on a cluster that you have",
		Long: `Runs the operator until it gets an interrupt or SIGTERM. In a pod it is the pod's
ServiceAccount; elsewhere it is who the kubeconfig says. What it may do is in the role of
charts/bellerophon-operator. It waits for a cluster that does not answer, and for a
resource definition that is not there yet. It runs on one processor while that is enough; GOMAXPROCS
sets another number, for good.`,
		Example: `  bellerophon operator --kubeconfig ~/.kube/config
  bellerophon operator --namespace team-a --workers 4 --log-level debug`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			least, err := logging.Level(level)
			if err != nil {
				return err
			}
			log, err := logging.New(os.Stderr, least, format)
			if err != nil {
				return err
			}
			config, err := connect.Config(kubeconfig)
			if err != nil {
				return err
			}
			types := scheme.Scheme
			if err := v1.AddToScheme(types); err != nil {
				return err
			}
			options.Logger = log
			options.OnListen = func(server string, address net.Addr) {
				log.Info("listening", "server", server, "address", address.String())
			}
			options.OnError = func(err error) { log.Warn(connect.Explain(err).Error()) }
			manager, err := controller.NewManager(config, types, options)
			if err != nil {
				return err
			}
			if err := simple.AddTo(manager); err != nil {
				return err
			}
			log.Info("the operator runs", slog.String("server", config.Host), slog.Any("namespaces", options.Namespaces))
			err = processors.Govern(command.Context(), manager.Run)
			log.Info("the operator has ended")
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; default is that of KUBECONFIG, the pod's ServiceAccount, or ~/.kube/config")
	flags.StringSliceVarP(&options.Namespaces, "namespace", "n", nil, "watch these namespaces only, separated by commas; default all")
	flags.IntVar(&options.Workers, "workers", 0, "reconciles at once, 1 to 1024; default 32")
	flags.DurationVar(&options.Window, "debounce-window", 0, "how long an event of a busy object waits for a newer one; negative for not at all; default 10ms")
	flags.StringVar(&options.MetricsAddress, "metrics-address", ":8080", "where to serve /metrics; empty for nowhere")
	flags.StringVar(&options.HealthAddress, "health-address", ":8081", "where to serve /healthz and /readyz; empty for nowhere")
	flags.StringVar(&options.ProfileAddress, "profile-address", "", "where to serve /debug/pprof/ for `go tool pprof`; default nowhere")
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&format, "log-format", "text", "text or json")
	_ = command.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logging.Levels, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions(logging.Formats, cobra.ShellCompDirectiveNoFileComp))
	return command
}
