module berth/cluster/launcher

go 1.26.0

tool github.com/buildpacks/lifecycle/cmd/launcher

require (
	github.com/BurntSushi/toml v1.5.0 // indirect
	github.com/apex/log v1.9.0 // indirect
	github.com/buildpacks/lifecycle v0.20.11 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/heroku/color v0.0.6 // indirect
	github.com/mattn/go-colorable v0.1.13 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/sys v0.33.0 // indirect
)
