module runner-go

go 1.26.0

require github.com/jobgate/jobgate/clients/go v1.0.0-rc.1

replace github.com/jobgate/jobgate/clients/go => ../../clients/go
